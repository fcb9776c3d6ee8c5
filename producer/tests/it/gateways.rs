//! Every gateway leads to the same routes.

use serde_json::json;

use crate::events::{BODY, Event, sample};
use crate::fakes::Fixture;

#[tokio::test]
async fn the_samples_do_what_their_names_say() {
    let fixture = Fixture::new();
    let report = fixture.send(&sample!("http-report")).await;
    assert_eq!(report.status, 202, "{report:?}");
    assert_eq!(report.body["kind"], "report");
    assert_eq!(report.body["state"], "queued");

    let keyed = fixture.send(&sample!("http-report-with-key")).await;
    let repeated = fixture.send(&sample!("http-report-with-key")).await;
    assert_eq!((keyed.status, repeated.status), (202, 202));
    assert_eq!(keyed.id(), repeated.id());

    let found = fixture.send(&sample!("http-get-job")).await;
    assert_eq!(found.status, 200, "{} is the job of the sample with a key", keyed.id());
    assert_eq!(found.id(), keyed.id());

    let batch = fixture.send(&sample!("http-batch")).await;
    assert_eq!((batch.status, batch.statuses()), (207, vec![202, 202, 422]));
    let jobs = &batch.body["jobs"];
    assert_eq!(jobs[0]["job"]["id"], keyed.id());
    assert_eq!(jobs[2]["problem"]["errors"][0]["pointer"], "/jobs/2/payload/rows/0/amount");

    let cancelled = fixture.send(&sample!("http-cancel-job")).await;
    assert_eq!((cancelled.status, cancelled.id()), (200, keyed.id()));
    assert_eq!(cancelled.body["state"], "cancelled");

    let refused = fixture.send(&sample!("http-report-invalid-rows")).await;
    assert_eq!(refused.status, 422);
    let pointers: Vec<_> = refused.body["errors"].as_array().unwrap().iter().collect();
    let pointers: Vec<_> =
        pointers.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    assert_eq!(
        pointers,
        ["/payload/title", "/payload/rows/1/amount", "/payload/rows/2/amount", "/payload/rows/3"]
    );
    assert_eq!(refused.body["error_count"], 4);

    let rest = fixture.send(&sample!("rest-report")).await;
    assert_eq!(rest.status, 202);
    // The same role, so the same principal, whichever gateway it comes through.
    let principals: Vec<_> = fixture.decoded().into_iter().map(|m| m.principal).collect();
    assert!(principals.windows(2).all(|pair| pair[0] == pair[1]), "{principals:?}");

    assert_eq!(fixture.send(&sample!("http-health")).await.body, json!({"status": "ok"}));
}

#[tokio::test]
async fn a_stage_changes_no_route_and_links_lead_through_it() {
    async fn check(event: Event, base: &str) {
        let fixture = Fixture::new();
        let answer = fixture.send(&event).await;
        assert_eq!(answer.status, 202, "{event:?} {answer:?}");
        let link = format!("{base}/jobs/{}", answer.id());
        assert_eq!(answer.header("location"), Some(link.as_str()));
        assert_eq!(answer.body["links"]["self"], link);
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let messages = fixture.messages();
        assert_eq!(messages.len(), 1);
        let payload = r#""payload":{"title":"t","rows":[{"group":"a","amount":"1.50"}]}"#;
        assert!(messages[0].body.contains(payload), "{messages:?}");
        assert!(fixture.entry(answer.id()).is_some());
    }
    let staged = |stage: &str, path: &str| {
        Event::post(BODY).at("POST", path).with("/requestContext/stage", json!(stage))
    };
    check(Event::post(BODY), "").await;
    check(staged("prod", "/prod/jobs"), "/prod").await;
    check(staged("jobs", "/jobs/jobs"), "/jobs").await;
    check(staged("prod", "/prod/jobs/"), "/prod").await;
    check(Event::rest_post(BODY), "/prod").await;
    let own_domain = Event::rest_post(BODY)
        .with("/requestContext/path", json!("/jobs"))
        .with("/requestContext/domainName", json!("api.example.com"));
    check(own_domain, "").await;
    let custom = staged("jobs", "/jobs").with("/requestContext/domainName", json!("a.example"));
    check(custom, "").await;
    check(Event::alb_post(BODY), "").await;
    let lists = Event::alb_post(BODY)
        .without("/headers")
        .with("/multiValueHeaders", json!({"content-type": ["application/json"]}));
    check(lists, "").await;
    let function_url = Event::post(BODY)
        .with("/requestContext/domainName", json!("abc.lambda-url.eu-west-1.on.aws"))
        .with("/requestContext/apiId", json!("abc"));
    check(function_url, "").await;
}

#[tokio::test]
async fn each_gateway_gets_the_answer_that_it_reads() {
    let fixture = Fixture::new();
    let rest = fixture.send(&Event::rest_post("")).await.event;
    assert_eq!(rest["multiValueHeaders"]["content-type"], json!(["application/problem+json"]));
    let http = fixture.send(&Event::post("")).await.event;
    assert_eq!(http["headers"]["content-type"], "application/problem+json");
    let alb = fixture.send(&Event::alb_post("")).await.event;
    assert_eq!(alb["statusDescription"], "400 Bad Request");
    assert_eq!(alb["headers"]["cache-control"], "no-store");
    assert_eq!(alb["multiValueHeaders"]["cache-control"], json!(["no-store"]));
    for event in [rest, http, alb] {
        assert_eq!((&event["statusCode"], &event["isBase64Encoded"]), (&json!(400), &json!(false)));
    }
}

#[tokio::test]
async fn what_is_no_http_request_fails_alone() {
    let fixture = Fixture::new();
    let schedule = json!({
        "version": "0", "id": "1", "detail-type": "Scheduled Event", "source": "aws.events",
        "account": "123456789012", "time": "2030-03-01T10:00:00Z", "region": "eu-west-1",
        "resources": [], "detail": {}
    });
    let sqs = json!({"Records": [{"messageId": "m", "eventSource": "aws:sqs", "body": BODY}]});
    for event in [schedule, sqs, json!({}), json!([]), json!(null), json!("text")] {
        let error = fixture.try_send(&Event::of(event)).await.unwrap_err();
        let (text, logged) = (error.to_string(), format!("{error:?}"));
        assert!(text.contains("HTTP API") && text.contains("Load Balancer"), "{text}");
        assert_eq!(text, logged);
    }
    assert_eq!(fixture.messages(), []);
    assert_eq!(fixture.send(&Event::post(BODY)).await.status, 202);
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_refused() {
    let fixture = Fixture::new();
    let base64 = Event::post("%%% not base64 %%%").with("/isBase64Encoded", json!(true));
    let query = Event::post(BODY).with("/rawQueryString", json!(r#"note=a b&filter={"a":[1]}"#));
    for event in [base64, query] {
        let answer = fixture.send(&event).await;
        assert_eq!((answer.status, answer.problem()), (400, "malformed"));
    }
    assert_eq!(fixture.steps.take(), [""; 0]);
    assert_eq!(fixture.send(&Event::post(BODY)).await.status, 202);
}

#[tokio::test]
async fn queries_do_not_matter() {
    let fixture = Fixture::new();
    let query = "note=a%20b&filter=%7B%22a%22%3A%5B1%5D%7D&plus=1%2B1&sort=-+created";
    let http = Event::post(BODY).with("/rawQueryString", json!(query));
    let alb = Event::alb_post(BODY)
        .with("/queryStringParameters", json!({"note": "a%20b", "filter": "%7B%22a%22%3A1%7D"}));
    for event in [http, alb] {
        assert_eq!(fixture.send(&event).await.status, 202);
    }
}

#[tokio::test]
async fn a_load_balancer_may_leave_out_nearly_everything() {
    let fixture = Fixture::new();
    let check = Event::alb_post("")
        .with("/httpMethod", json!("GET"))
        .with("/path", json!("/health"))
        .with("/headers", json!({"user-agent": "ELB-HealthChecker/2.0"}));
    assert_eq!(fixture.send(&check).await.status, 200);
    assert_eq!(fixture.messages(), []);
}

#[tokio::test]
async fn a_console_may_leave_out_host_and_headers() {
    let fixture = Fixture::new();
    let no_host =
        Event::rest_post(BODY).without("/headers/Host").without("/multiValueHeaders/Host");
    let no_headers = Event::rest_post(BODY)
        .with("/headers", json!(null))
        .with("/multiValueHeaders", json!(null));
    for event in [no_host, no_headers] {
        assert_eq!(fixture.send(&event).await.status, 202);
    }
}

#[tokio::test]
async fn only_post_makes_a_job() {
    let fixture = Fixture::new();
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"] {
        for path in ["/jobs", "/jobs/", "/jobs/batch", "/jobs/batch/"] {
            let answer = fixture.send(&Event::post(BODY).at(method, path)).await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
        }
    }
    for path in ["//jobs", "/jobs/a b", "/jobs/batch/1", "/", "", "/jobs//"] {
        let answer = fixture.send(&Event::post(BODY).at("POST", path)).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    assert_eq!(fixture.steps.take(), [""; 0]);
}

#[tokio::test]
async fn head_is_answered_without_a_body() {
    let fixture = Fixture::new();
    let answer = fixture.send(&Event::request("HEAD", "/health")).await;
    assert_eq!((answer.status, &answer.body), (200, &json!(null)));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let answer = fixture.send(&Event::request("HEAD", "/jobs")).await;
    assert_eq!((answer.status, &answer.body), (405, &json!(null)));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
}
