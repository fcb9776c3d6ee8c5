//! The secrets that deliveries are signed with.
//!
//! The standard signs id, time and body, but not the URL. With one secret for
//! all, any caller could have an event signed that goes to a host of his own,
//! and send it on to the real partner. So secrets belong to hosts.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use shared::Timestamp;
use shared::jobs::webhook::hosts;
use standardwebhooks::{Webhook, WebhookError};

/// Characters of a secret of 24 bytes, the least that the standard allows.
const LEAST_SECRET_CHARS: usize = 32;

const PREFIX: &str = "whsec_";

/// Secrets by host: several while one takes the other's place.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Secrets(BTreeMap<String, Vec<String>>);

impl Secrets {
    /// The value of `webhook-signature`: one signature for each of the host's
    /// secrets. `None` where it has none.
    pub(super) fn sign(
        &self,
        host: &str,
        id: &str,
        now: Timestamp,
        body: &str,
    ) -> Result<Option<String>, WebhookError> {
        let Some(secrets) = self.0.get(host) else { return Ok(None) };
        let seconds = i64::try_from(now.as_seconds()).unwrap_or(i64::MAX);
        let sign = |secret: &String| Webhook::new(secret)?.sign(id, seconds, body.as_bytes());
        let signatures: Vec<_> = secrets.iter().map(sign).collect::<Result<_, _>>()?;
        Ok(Some(signatures.join(" ")))
    }
}

/// Errors never quote what they are about: it is secret.
impl FromStr for Secrets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let by_host: BTreeMap<String, Vec<String>> = serde_json::from_str(text).map_err(|_| {
            "must be a JSON object like {\"partner.example\":[\"whsec_…\"]}".to_owned()
        })?;
        let mut secrets = BTreeMap::new();
        for (host, of_host) in by_host {
            let all_are_sound = of_host.iter().all(|secret| {
                let encoded = secret.strip_prefix(PREFIX).unwrap_or(secret);
                encoded.len() >= LEAST_SECRET_CHARS && Webhook::new(secret).is_ok()
            });
            if of_host.is_empty() || !all_are_sound {
                return Err(format!(
                    "each secret of a host must be \"{PREFIX}\" and the base64 of 24 bytes or more"
                ));
            }
            if secrets.insert(hosts::parse(&host)?, of_host).is_some() {
                return Err("names one host twice".to_owned());
            }
        }
        Ok(Self(secrets))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the standard's reference implementations.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    fn sign(json: &str, host: &str) -> Option<String> {
        let now = Timestamp::from_millis(1_614_265_330_000);
        let secrets: Secrets = json.parse().unwrap();
        secrets.sign(host, "msg_p5jXN8AQM9LWM0D4loKWxJek", now, r#"{"test": 2432232314}"#).unwrap()
    }

    #[test]
    fn the_standards_own_example_is_signed_as_it_says() {
        let json = format!(r#"{{"partner.example":["{SECRET}"]}}"#);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(sign(&json, "partner.example").as_deref(), Some(expected));
    }

    #[test]
    fn two_secrets_make_two_signatures() {
        let json = format!(r#"{{"Partner.Example.":["{OTHER}","{SECRET}"]}}"#);
        let both = sign(&json, "partner.example").unwrap();
        let (first, second) = both.split_once(' ').unwrap();
        assert_ne!(first, second);
        assert!(first.starts_with("v1,"));
        assert_eq!(second, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_host_without_a_secret_gets_no_signature() {
        let json = format!(r#"{{"partner.example":["{SECRET}"]}}"#);
        assert_eq!(sign(&json, "evil.example"), None);
        assert_eq!(sign(&json, "x.partner.example"), None);
        assert_eq!(sign("{}", "partner.example"), None);
    }

    #[test]
    fn unsound_secrets_are_refused_and_not_told() {
        for json in [
            "whsec_topsecret",
            r#"{"a.example":"whsec_topsecret"}"#,
            r#"{"a.example":["whsec_topsecret"]}"#,
            r#"{"a.example":["whsec_topsecret-topsecret-topsecret-topsecret!"]}"#,
            r#"{"a.example":[]}"#,
            r#"{"whsec_topsecret":["partner.example"]}"#,
            r#"{"a.example":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],"A.example.":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}"#,
            r#"{"https://a.example":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}"#,
        ] {
            let error = json.parse::<Secrets>().unwrap_err();
            assert!(!error.contains("topsecret") && !error.contains("MfKQ"), "{error}");
        }
        let json = format!(r#"{{"partner.example":["{SECRET}"]}}"#);
        assert_eq!(format!("{:?}", json.parse::<Secrets>().unwrap()), r#"["partner.example"]"#);
    }
}
