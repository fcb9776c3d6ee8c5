//! The payload of `welcome-email`: the message that nobody wants twice.

use email_address::{EmailAddress, Options};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::job::{Interrupted, Payload, Scope};
#[cfg(feature = "openapi")]
use crate::schema::Schemas;
use crate::validation::{Invalid, read};

/// Characters of the caller's id for a candidate.
const MAX_ID_CHARS: usize = 128;

/// Characters of a name. It is a person's, and no place for a letter of its own.
const MAX_NAME_CHARS: usize = 100;

/// Characters of an address that SMTP can carry (RFC 5321, 4.5.3.1.3, less the
/// angle brackets).
const MAX_ADDRESS_CHARS: usize = 254;

/// Asks for the e-mail that welcomes a candidate.
///
/// Whoever asks, and however often, it is sent once. Where nobody knows whether
/// it was sent, a person finds out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WelcomeEmail {
    /// Names the candidate in the whole deployment; what makes two requests one.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[!-~]{1,128}$"))]
    pub candidate_id: String,
    /// The candidate's address: a plain one, without a name around it.
    #[cfg_attr(feature = "openapi", schema(format = Email, max_length = 254))]
    pub to: String,
    /// What the candidate is called.
    #[cfg_attr(
        feature = "openapi",
        schema(
            min_length = 1,
            max_length = 100,
            pattern = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\S[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
        )
    )]
    pub name: String,
    /// The language that the e-mail is written in.
    pub language: Language,
}

/// The language of an e-mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Language {
    /// English.
    En,
    /// German.
    De,
}

impl Payload for WelcomeEmail {
    const KIND: &'static str = "welcome-email";

    /// Two services must not both send it.
    const INTENT_SCOPE: Scope = Scope::Deployment;

    #[cfg(feature = "openapi")]
    fn schema() -> Schemas {
        Schemas::of::<Self>()
    }

    fn parse(payload: &RawValue) -> Result<Self, Invalid> {
        let email: Self = read(payload)?;
        let mut invalid = Invalid::default();
        let id = email.candidate_id.as_bytes();
        if !(1..=MAX_ID_CHARS).contains(&id.len()) || !id.iter().all(u8::is_ascii_graphic) {
            let detail = format!("must have 1 to {MAX_ID_CHARS} visible ASCII characters");
            invalid.push("/candidate_id", detail);
        }
        if !is_plain_address(&email.to) {
            invalid.push("/to", "must be an e-mail address like \"ada@example.org\"");
        }
        if !is_name(&email.name) {
            let detail =
                format!("must have 1 to {MAX_NAME_CHARS} characters on one line, not only blank");
            invalid.push("/name", detail);
        }
        invalid.or(email)
    }

    fn intent_key(&self) -> Option<String> {
        Some(format!("{}:{}", Self::KIND, self.candidate_id))
    }

    fn interrupted(&self) -> Interrupted {
        Interrupted::Hold
    }
}

/// ASCII only, since not every server takes more (domains have an ASCII form),
/// and without quotes, comments and address literals: what looks like two things
/// to two readers is refused.
fn is_plain_address(text: &str) -> bool {
    let options =
        Options::default().with_required_tld().without_domain_literal().without_display_text();
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"()<>[]\\,;:".contains(&byte));
    is_plain
        && text.len() <= MAX_ADDRESS_CHARS
        && EmailAddress::parse_with_options(text, options).is_ok()
}

fn is_name(text: &str) -> bool {
    let breaks_lines = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    !text.trim().is_empty()
        && text.chars().count() <= MAX_NAME_CHARS
        && !text.chars().any(breaks_lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(id: &str, to: &str, name: &str) -> Result<WelcomeEmail, Vec<String>> {
        let payload = serde_json::json!({
            "candidate_id": id, "to": to, "name": name, "language": "en",
        });
        let payload = RawValue::from_string(payload.to_string()).unwrap();
        WelcomeEmail::parse(&payload)
            .map_err(|invalid| invalid.errors().iter().map(|error| error.pointer.clone()).collect())
    }

    #[test]
    fn the_candidate_alone_is_the_intent() {
        let one = parse("c-42", "ada@example.org", "Ada").unwrap();
        let other = parse("c-42", "countess@example.org", "Ada Lovelace").unwrap();
        assert_eq!(one.intent_key().as_deref(), Some("welcome-email:c-42"));
        assert_eq!(one.intent_key(), other.intent_key());
        assert_eq!(one.interrupted(), Interrupted::Hold);
    }

    #[test]
    fn sound_addresses_are_taken() {
        for to in [
            "ada@example.org",
            "ada.lovelace+jobs@mail.example.co.uk",
            "o'hara@example.org",
            "a@xn--bcher-kva.example",
            &format!("{}@example.org", "a".repeat(64)),
        ] {
            assert_eq!(parse("c", to, "Ada").map(|email| email.to).as_deref(), Ok(to));
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for to in [
            "",
            "ada",
            "@example.org",
            "ada@",
            "ada@localhost",
            "ada@@example.org",
            "ada@exam ple.org",
            "ada @example.org",
            " ada@example.org",
            "ada@example.org ",
            "ada@example.org\n",
            "ada@example.org\r\nBcc: eve@example.org",
            "ada\r\nRCPT TO:<eve@example.org>@example.org",
            "ada@example.org,eve@example.org",
            "ada@example.org;eve@example.org",
            "Ada <ada@example.org>",
            "<ada@example.org>",
            "\"ada\"@example.org",
            "\"ada\r\n\"@example.org",
            "ada@[127.0.0.1]",
            "ada(comment)@example.org",
            ".ada@example.org",
            "ada.@example.org",
            "ada..l@example.org",
            "ada@-example.org",
            "ada@example-.org",
            "ada@example..org",
            "ada@.example.org",
            "ada@example.org.",
            "\u{e4}da@example.org",
            "ada@b\u{fc}cher.example",
            "ada\0@example.org",
            &format!("{}@example.org", "a".repeat(65)),
            &format!("a@{}.org", "b".repeat(64)),
            &format!("a@{}org", "b.".repeat(130)),
        ] {
            assert_eq!(parse("c", to, "Ada"), Err(vec!["/to".to_owned()]), "{to:?}");
        }
    }

    #[test]
    fn nothing_can_be_injected_by_a_name() {
        for name in
            ["Ada", "Ad\u{e0} \u{30a2}", "<b>Ada</b>", "O'Hara, \"Ada\"", &"\u{e9}".repeat(100)]
        {
            assert!(parse("c", "ada@example.org", name).is_ok(), "{name}");
        }
        for name in [
            "",
            " ",
            "Ada\r\nBcc: eve@example.org",
            "Ada\nx",
            "Ada\rx",
            "Ada\0",
            "Ada\u{85}x",
            "Ada\u{2028}x",
            &"a".repeat(101),
        ] {
            assert_eq!(parse("c", "ada@example.org", name), Err(vec!["/name".to_owned()]));
        }
    }

    #[test]
    fn candidates_have_plain_ids() {
        for id in ["", " ", "a b", " a", "a\n", "\u{e9}", &"a".repeat(129)] {
            assert_eq!(parse(id, "ada@example.org", "Ada"), Err(vec!["/candidate_id".to_owned()]));
        }
    }

    #[cfg(feature = "openapi")]
    #[test]
    fn the_schema_says_what_is_checked() {
        let schemas = serde_json::to_value(WelcomeEmail::schema().all).unwrap();
        let fields = &schemas["WelcomeEmail"]["properties"];
        assert_eq!(fields["to"]["maxLength"], MAX_ADDRESS_CHARS);
        assert_eq!(fields["name"]["maxLength"], MAX_NAME_CHARS);
        assert_eq!(fields["candidate_id"]["pattern"], format!("^[!-~]{{1,{MAX_ID_CHARS}}}$"));
    }
}
