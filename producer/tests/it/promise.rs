//! Whatever is answered with 202, the consumer reads as the identical job.

use proptest::prelude::*;
use serde_json::json;
use shared::fingerprint::Fingerprint;
use shared::message::Message;
use shared::{Job, Principal};

use crate::events::Event;
use crate::fakes::Fixture;

/// JSON strings: of any characters, written as they are or escaped.
fn string() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        4 => "\\PC{1,100}",
        4 => prop::collection::vec(any::<char>(), 1..150).prop_map(String::from_iter),
        4 => "[a-z]{1,12}",
        1 => prop::collection::vec(any::<char>(), 0..220).prop_map(String::from_iter),
    ];
    (text, any::<bool>()).prop_map(|(text, escaped)| {
        let plain = serde_json::to_string(&text).unwrap();
        if !escaped {
            return plain;
        }
        let units: Vec<_> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        format!("\"{}\"", units.concat())
    })
}

/// Mostly amounts, and what could be taken for one.
fn amount() -> impl Strategy<Value = String> {
    prop_oneof![
        30 => "\"-?[0-9]{1,15}(\\.[0-9]{1,9})?\"",
        1 => "\"[-+.e0-9]{0,18}\"",
        1 => "-?[1-9][0-9]{0,20}(\\.[0-9]{1,30})?(e[0-9]{1,3})?",
        1 => string(),
    ]
}

fn payload() -> impl Strategy<Value = String> {
    let row = (string(), amount(), "[ \t\r\n]{0,2}", any::<bool>()).prop_map(
        |(group, amount, space, turned)| {
            if turned {
                format!("{{{space}\"amount\":{amount},\"group\" :{space}{group}}}")
            } else {
                format!("{{\"group\":{group}{space},{space}\"amount\":{amount}}}")
            }
        },
    );
    (string(), prop::collection::vec(row, 1..4))
        .prop_map(|(title, rows)| format!("{{\"title\":{title}, \"rows\":[{}]}}", rows.join(" , ")))
}

proptest! {
    #[test]
    fn what_is_accepted_is_decoded_to_the_identical_job(
        payload in payload(),
        key in prop::option::of(prop_oneof![9 => "[!#-+--~]{1,20}", 1 => "[ -~]{1,20}"]),
        delay in prop::option::of(0_u16..950),
        group in prop::option::of(string()),
        subject in prop::option::of("[a-z:]{1,9}"),
    ) {
        let mut body = format!(r#"{{"kind":"report","payload":{payload}"#);
        if let Some(delay) = delay {
            body = format!("{body},\"delay_seconds\":{delay}");
        }
        if let Some(group) = &group {
            body = format!("{body},\"group\":{group}");
        }
        body.push('}');
        let mut event = Event::post("").with("/body", json!(body));
        if let Some(key) = &key {
            event = event.key(key);
        }
        if let Some(subject) = &subject {
            event = event.jwt(subject);
        }
        let fixture = Fixture::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(fixture.send(&event));
        if answer.status != 202 {
            prop_assert!((400..500).contains(&answer.status), "{answer:?}");
            prop_assert!(fixture.steps.take().is_empty());
            return Ok(());
        }
        let messages = fixture.messages();
        prop_assert_eq!(messages.len(), 1);
        prop_assert!(messages[0].has_only_allowed_characters());
        prop_assert!(messages[0].delay_seconds <= 900);
        let payload = serde_json::value::RawValue::from_string(payload).unwrap();
        let expected = Message {
            id: answer.id().parse().unwrap(),
            job: Job::parse("report", &payload).unwrap(),
            principal: subject.map_or_else(Principal::anonymous, |subject| {
                Principal::jwt("https://issuer.example", &subject)
            }),
            fingerprint: Fingerprint::of("report", &payload).unwrap(),
            created_at: Some(fixture.now()),
        };
        prop_assert_eq!(Message::decode(&messages[0].body).unwrap(), expected);
    }
}
