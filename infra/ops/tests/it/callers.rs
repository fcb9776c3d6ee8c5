//! Who may call the API, and what callers see of one another: nothing.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_sdk_sqs::config::Credentials;
use ops::api::{Api, Caller};
use ops::local::Local;
use ops::stack::Stack;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::issuer::Issuer;
use crate::support::{PARAMETERS, PATIENCE, end_to_end, new_id, report};

const AUDIENCE: &str = "relevo-tests";

/// A stack that takes tokens, and who makes them.
struct WithTokens {
    stack: Stack,
    issuer: Issuer,
}

static WITH_TOKENS: OnceCell<WithTokens> = OnceCell::const_new();

/// A stack that takes signatures, in a stage that has a name.
static WITH_SIGNATURES: OnceCell<Stack> = OnceCell::const_new();

#[test]
fn without_a_sound_token_nobody_is_let_in() {
    end_to_end(async |local| {
        let WithTokens { stack, issuer } = with_tokens(local).await;
        let sound = claims(issuer, "ann");
        let with = |name: &str, value: Value| {
            let mut claims = sound.clone();
            claims[name] = value;
            Caller::Token(issuer.token(&claims))
        };
        let callers = [
            ("no token", Caller::Anyone),
            ("no JWT", Caller::Token("ann".to_owned())),
            ("expired", with("exp", json!(now() - 60))),
            ("for somebody else", with("aud", json!("another"))),
            ("by somebody else", with("iss", json!("https://another.example"))),
            ("another's signature", Caller::Token(forged(issuer))),
        ];
        for (what, caller) in callers {
            let api = stack.api.called_by(caller);
            let answer = api.post_job(report("Refused").to_string(), None).await.unwrap();
            assert_eq!(answer.status, 401, "{what}: {}", answer.body);
            assert_eq!(api.get("/health").await.unwrap().status, 401, "{what}");
        }
    });
}

#[test]
fn a_token_without_a_subject_names_nobody() {
    end_to_end(async |local| {
        let WithTokens { stack, issuer } = with_tokens(local).await;
        let mut claims = claims(issuer, "");
        claims.as_object_mut().unwrap().remove("sub");
        let api = stack.api.called_by(Caller::Token(issuer.token(&claims)));
        let answer = api.post_job(report("Nobody's").to_string(), None).await.unwrap();
        assert_eq!(answer.status, 403, "{}", answer.body);
    });
}

#[test]
fn two_subjects_neither_see_nor_cancel_nor_meet_each_others_jobs() {
    end_to_end(async |local| {
        let WithTokens { stack, issuer } = with_tokens(local).await;
        let of = |subject| {
            let token = issuer.token(&claims(issuer, subject));
            stack.api.called_by(Caller::Token(token))
        };
        let (ann, bob) = (of("ann"), of("bob"));
        assert_are_strangers(&ann, &bob).await;
        let id = accepted(&ann, &new_id()).await;
        let issuer_length = issuer.url.len();
        let principal = format!("jwt:{issuer_length}:{}:ann", issuer.url);
        assert_eq!(principal_of(stack, &id).await, principal);
    });
}

/// A stack that takes tokens, and one of them.
pub(crate) async fn stack_and_token(local: &Local) -> (&'static Stack, String) {
    let WithTokens { stack, issuer } = with_tokens(local).await;
    (stack, issuer.token(&claims(issuer, "operator")))
}

#[test]
fn without_a_signature_nobody_is_let_in() {
    end_to_end(async |local| {
        let stack = with_signatures(local).await;
        // The emulator takes any signature by a key that it knows, so there is no
        // case of a wrong secret here.
        let stranger = Credentials::new("AKIAIOSFODNN7EXAMPLE", "secret", None, None, "stranger");
        for caller in [Caller::Anyone, Caller::Signature(stranger)] {
            let api = stack.api.called_by(caller.clone());
            let answer = api.post_job(report("Refused").to_string(), None).await.unwrap();
            assert_eq!(answer.status, 403, "{caller:?}: {}", answer.body);
        }
    });
}

#[test]
fn two_sessions_of_one_role_are_one_caller_and_two_roles_are_two() {
    end_to_end(async |local| {
        let stack = with_signatures(local).await;
        let role = role(stack, "caller").await;
        let pods =
            [session(stack, "caller", "pod-1").await, session(stack, "caller", "pod-2").await];
        let another = self::role(stack, "another").await;
        assert_ne!(role, another);
        let another = session(stack, "another", "pod-1").await;

        let key = new_id();
        let id = accepted(&pods[0], &key).await;
        assert_eq!(accepted(&pods[1], &key).await, id);
        assert_eq!(pods[1].job(&id).await.unwrap().status, 200);
        // The role's own id, which a role of the same name made anew would not get.
        assert_eq!(principal_of(stack, &id).await, format!("iam:000000000000:{role}"));
        assert_are_strangers(&pods[0], &another).await;
    });
}

#[test]
fn a_stage_with_a_name_changes_no_route() {
    end_to_end(async |local| {
        let stack = with_signatures(local).await;
        let root = stack.connection.credentials().await.unwrap();
        let api = stack.api.called_by(Caller::Signature(root));
        assert!(api.base().ends_with("/prod"), "{}", api.base());
        assert_eq!(api.get("/health").await.unwrap().status, 200);
        assert_eq!(api.get("/nothing").await.unwrap().status, 404);
        let answer = api.post_job(report("Staged").to_string(), None).await.unwrap();
        assert_eq!(answer.status, 202, "{}", answer.body);
        // The emulator leaves the stage out of the event's path, and so out of the
        // link. AWS does not; the producer's tests hold the link to that.
        let link = answer.text("/links/self");
        assert_eq!(api.get(link).await.unwrap().status, 200, "{}", answer.body);
        let job = api.wait_for_job(answer.id().unwrap(), PATIENCE).await.unwrap();
        assert_eq!(job.text("/state"), "succeeded");
    });
}

async fn with_tokens(local: &Local) -> &'static WithTokens {
    let start = async || {
        let issuer = Issuer::start(&local.tools).await;
        let own = [("AuthMode", "JWT"), ("JwtIssuer", &*issuer.url), ("JwtAudience", AUDIENCE)];
        let parameters = [&PARAMETERS[..], &own].concat();
        let stack = local.another_stack("with-tokens", &parameters).await.unwrap();
        WithTokens { stack, issuer }
    };
    WITH_TOKENS.get_or_init(start).await
}

async fn with_signatures(local: &Local) -> &'static Stack {
    let own = [("AuthMode", "AWS_IAM"), ("StageName", "prod")];
    let parameters = [&PARAMETERS[..], &own].concat();
    let start = async || local.another_stack("with-signatures", &parameters).await.unwrap();
    WITH_SIGNATURES.get_or_init(start).await
}

/// Checks that two callers can send the same and notice nothing of each other.
async fn assert_are_strangers(one: &Api, other: &Api) {
    let key = new_id();
    let first = accepted(one, &key).await;
    let second = accepted(other, &key).await;
    assert_ne!(first, second, "one key of two callers is one job");
    for (api, others) in [(one, &second), (other, &first)] {
        let unknown = api.job(&new_id()).await.unwrap();
        let seen = api.job(others).await.unwrap();
        assert_eq!(
            (seen.status, seen.text("/type")),
            (404, unknown.text("/type")),
            "{}",
            seen.body
        );
        let cancelled = api.cancel(others).await.unwrap();
        assert_eq!(cancelled.status, 404, "{}", cancelled.body);
    }
    for (api, own) in [(one, &first), (other, &second)] {
        let job = api.wait_for_job(own, PATIENCE).await.unwrap();
        assert_eq!(job.text("/state"), "succeeded", "{}", job.body);
    }
}

async fn accepted(api: &Api, key: &str) -> String {
    let answer = api.post_job(report("Mine").to_string(), Some(key)).await.unwrap();
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.id().unwrap().to_owned()
}

async fn principal_of(stack: &Stack, id: &str) -> String {
    stack.entry(id).await.unwrap().unwrap()["principal"].as_s().unwrap().clone()
}

fn claims(issuer: &Issuer, subject: &str) -> Value {
    json!({ "iss": issuer.url, "sub": subject, "aud": AUDIENCE, "exp": now() + 3600 })
}

/// A token for bob under the signature of ann's.
fn forged(issuer: &Issuer) -> String {
    let [ann, bob] = ["ann", "bob"].map(|subject| issuer.token(&claims(issuer, subject)));
    let (content, _) = bob.rsplit_once('.').unwrap();
    let (_, signature) = ann.rsplit_once('.').unwrap();
    format!("{content}.{signature}")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Makes a role that may call the API, and returns its unique id.
async fn role(stack: &Stack, name: &str) -> String {
    let trust = json!({ "Version": "2012-10-17", "Statement": [{
        "Effect": "Allow",
        "Principal": { "AWS": "arn:aws:iam::000000000000:root" },
        "Action": "sts:AssumeRole",
    }] });
    let policy = json!({ "Version": "2012-10-17", "Statement": [{
        "Effect": "Allow",
        "Action": "execute-api:Invoke",
        "Resource": format!("arn:aws:execute-api:us-east-1:000000000000:{}/prod/*", stack.outputs.api_id),
    }] });
    let (trust, policy) = (trust.to_string(), policy.to_string());
    let mut create = vec!["iam", "create-role", "--role-name", name];
    create.extend(["--assume-role-policy-document", &trust]);
    let role = stack.aws.json(&create).await.unwrap();
    let mut put = vec!["iam", "put-role-policy", "--role-name", name, "--policy-name", "call"];
    put.extend(["--policy-document", &policy]);
    stack.aws.call(&put).await.unwrap();
    role["Role"]["RoleId"].as_str().unwrap().to_owned()
}

/// The API as a session of a role calls it.
async fn session(stack: &Stack, role: &str, name: &str) -> Api {
    let arn = format!("arn:aws:iam::000000000000:role/{role}");
    let arguments = ["sts", "assume-role", "--role-arn", &arn, "--role-session-name", name];
    let answer = stack.aws.json(&arguments).await.unwrap();
    let part = |name: &str| answer["Credentials"][name].as_str().unwrap();
    let credentials = Credentials::new(
        part("AccessKeyId"),
        part("SecretAccessKey"),
        Some(part("SessionToken").to_owned()),
        None,
        "session",
    );
    stack.api.called_by(Caller::Signature(credentials))
}
