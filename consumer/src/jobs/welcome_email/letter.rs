//! The words of the e-mail.

use std::time::{Duration, UNIX_EPOCH};

use lettre::error::Error as LetterError;
use lettre::message::{Mailbox, MultiPart};
use lettre::{Address, Message};
use shared::Timestamp;
use shared::jobs::{Language, WelcomeEmail};

/// Why an e-mail cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwritable {
    #[error("the address is not one that mail can be sent to")]
    Address(#[from] lettre::address::AddressError),
    #[error("the parts do not make a message")]
    Message(#[from] LetterError),
}

/// What differs between languages.
struct Words {
    subject: &'static str,
    text: String,
    html: String,
}

/// Writes the e-mail as it goes over the wire: ASCII, whatever the name.
///
/// # Errors
///
/// It cannot be written, now or later.
pub(super) fn write(
    email: &WelcomeEmail,
    from: &Mailbox,
    message_id: &str,
    now: Timestamp,
) -> Result<Message, Unwritable> {
    let to: Address = email.to.parse()?;
    let Words { subject, text, html } = words(email);
    let message = Message::builder()
        .from(from.clone())
        .to(Mailbox::new(Some(email.name.clone()), to))
        .date(UNIX_EPOCH + Duration::from_millis(now.as_millis()))
        .message_id(Some(message_id.to_owned()))
        .subject(subject)
        .multipart(MultiPart::alternative_plain_html(text, html))?;
    Ok(message)
}

fn words(email: &WelcomeEmail) -> Words {
    let (name, escaped) = (email.name.trim(), escape(email.name.trim()));
    match email.language {
        Language::En => Words {
            subject: "Welcome",
            text: format!(include_str!("en.txt"), name = name),
            html: format!(include_str!("en.html"), name = escaped),
        },
        Language::De => Words {
            subject: "Willkommen",
            text: format!(include_str!("de.txt"), name = name),
            html: format!(include_str!("de.html"), name = escaped),
        },
    }
}

/// The text as HTML, so that nobody can write tags by a name.
fn escape(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, c| {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, language: Language) -> String {
        let email = WelcomeEmail {
            candidate_id: "c".to_owned(),
            to: "ada@example.org".to_owned(),
            name: name.to_owned(),
            language,
        };
        let from = "Relevo <hello@relevo.example>".parse().unwrap();
        let now = Timestamp::from_millis(1_800_000_000_000);
        let message = write(&email, &from, "<7@relevo.example>", now).unwrap();
        String::from_utf8(message.formatted()).unwrap()
    }

    #[test]
    fn an_email_has_what_readers_and_servers_look_for() {
        let message = written("Ada", Language::En);
        for part in [
            "From: Relevo <hello@relevo.example>\r\n",
            "To: Ada <ada@example.org>\r\n",
            "Message-ID: <7@relevo.example>\r\n",
            "Date: Fri, 15 Jan 2027 08:00:00 +0000\r\n",
            "Subject: Welcome\r\n",
            "Content-Type: multipart/alternative;",
            "Content-Type: text/plain; charset=utf-8\r\n",
            "Content-Type: text/html; charset=utf-8\r\n",
            "Hello Ada,",
            "<p>Hello Ada,</p>",
        ] {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert!(written("Ada", Language::De).contains("Subject: Willkommen"));
    }

    #[test]
    fn a_name_is_nothing_but_a_name() {
        for name in
            ["Ad\u{e0} \u{30a2}", "\"Ada\" <eve@example.org>, x", "<b>Ada</b>", "{name} & {}"]
        {
            let message = written(name, Language::En);
            assert!(message.is_ascii(), "{message}");
            assert!(!message.contains("<b>Ada</b></p>"), "{message}");
            let to: Vec<_> = message.lines().filter(|line| line.starts_with("To: ")).collect();
            assert_eq!(to.len(), 1, "{message}");
        }
        assert_eq!(escape("<a href=\"'&\">"), "&lt;a href=&quot;&#39;&amp;&quot;&gt;");
    }

    /// What the producer lets in, the consumer can send to.
    #[test]
    fn every_address_that_is_taken_is_one_that_can_be_written_to() {
        use proptest::prelude::*;
        use serde_json::{json, value::RawValue};
        use shared::job::Payload;
        let taken = std::cell::Cell::new(0);
        proptest!(ProptestConfig::with_cases(2_000), |(to in "[a-z0-9!#$%&'*+/=?^_`{|}~.-]{1,8}@[a-zA-Z0-9.-]{1,10}\\.[a-z0-9-]{1,4}")| {
            let payload = json!({"candidate_id": "c", "to": to, "name": "A", "language": "en"});
            let payload = RawValue::from_string(payload.to_string()).unwrap();
            if WelcomeEmail::parse(&payload).is_ok() {
                taken.set(taken.get() + 1);
                prop_assert!(to.parse::<Address>().is_ok(), "{}", to);
            }
        });
        assert!(taken.get() > 100, "only {} were taken", taken.get());
    }
}
