//! A message fits the queue, or is refused.

use crate::events::{BODY, Event};
use crate::fakes::Fixture;

/// A report whose body has `bytes` or a few more, in rows of full groups.
fn report_of(bytes: usize, character: char) -> String {
    let group: String = std::iter::repeat_n(character, 200).collect();
    let row = format!(r#"{{"group":"{group}","amount":"1"}}"#);
    let rows = vec![row.as_str(); bytes / (row.len() + 1) + 1].join(",");
    format!(r#"{{"kind":"report","payload":{{"title":"t","rows":[{rows}]}}}}"#)
}

#[tokio::test]
async fn the_queues_limit_decides() {
    for (bytes, character, status) in [
        (257 * 1024, 'x', 202),
        (1_000_000, 'x', 202),
        (1024 * 1024, 'x', 413),
        (2 * 1024 * 1024, 'x', 413),
        // 350,000 characters of three bytes.
        (1_050_000, '\u{20ac}', 413),
        (900_000, '\u{20ac}', 202),
    ] {
        let fixture = Fixture::new();
        let answer = fixture.send(&Event::post(&report_of(bytes, character))).await;
        assert_eq!(answer.status, status, "{bytes} bytes of {character}");
        if status == 413 {
            assert_eq!(answer.problem(), "too-large");
            assert!(answer.body["detail"].as_str().unwrap().contains("1040384 bytes"));
            assert_eq!(fixture.steps.take(), [""; 0]);
        }
    }
}

#[tokio::test]
async fn a_payload_that_is_too_large_and_invalid_is_too_large() {
    let fixture = Fixture::new();
    let text = "x".repeat(1_048_600);
    let body = format!(r#"{{"kind":"report","payload":{{"text":"{text}"}}}}"#);
    assert_eq!(fixture.send(&Event::post(&body)).await.status, 413);
}

#[tokio::test]
async fn a_message_of_exactly_the_limit_is_taken() {
    for event in [Event::post, Event::rest_post] {
        let mut fixture = Fixture::new();
        fixture.send(&event(BODY)).await;
        fixture.producer.message_limit = fixture.messages()[0].size() + 100;
        // White space within the payload travels along.
        let padded = |bytes| BODY.replace("[{", &format!("[{}{{", " ".repeat(bytes)));
        assert_eq!(fixture.send(&event(&padded(100))).await.status, 202);
        assert_eq!(fixture.messages()[1].size(), fixture.producer.message_limit);
        for key in [None, Some("key")] {
            let event = event(&padded(101));
            let event = key.map_or(event.clone(), |key| event.key(key));
            assert_eq!(fixture.send(&event).await.status, 413);
        }
        assert_eq!(fixture.messages().len(), 2);
    }
}
