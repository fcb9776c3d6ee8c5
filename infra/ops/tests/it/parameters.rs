//! What must not be deployed is refused before anything is changed.

use ops::parameter_sets::PARAMETER_SETS;
use serde_json::Value;

use crate::expansion::{Expansion, matches, number, template, text};

#[test]
fn every_set_of_parameters_is_accepted() {
    let template = template();
    for (set, parameters) in PARAMETER_SETS {
        assert_eq!(Expansion::new(&template, parameters).refusals(), [""; 0], "{set}");
    }
    let values = PARAMETER_SETS.iter().flat_map(|(_, parameters)| parameters.iter().copied());
    assert_eq!(refused(&template, &values.collect::<Vec<_>>()), []);
}

#[test]
fn defaults_are_values_that_may_be_given() {
    let template = template();
    let parameters = template["Parameters"].as_object().unwrap();
    let defaults = parameters.iter().map(|(name, it)| (&**name, text(&it["Default"])));
    let defaults: Vec<_> = defaults.collect();
    let values: Vec<_> = defaults.iter().map(|(name, value)| (*name, &**value)).collect();
    assert_eq!(refused(&template, &values), []);
}

/// The consumer would not start.
#[test]
fn a_backoff_begins_under_its_cap() {
    let template = template();
    let allowed = |name: &str| {
        let allowed = template["Parameters"][name]["AllowedValues"].as_array().unwrap();
        allowed.iter().map(number).collect::<Vec<_>>()
    };
    for base in allowed("BackoffBaseSeconds") {
        for cap in allowed("BackoffCapSeconds") {
            let (base_text, cap_text) = (base.to_string(), cap.to_string());
            let parameters =
                [("BackoffBaseSeconds", &*base_text), ("BackoffCapSeconds", &*cap_text)];
            let refusals = Expansion::new(&template, &parameters).refusals();
            assert_eq!(refusals.len(), usize::from(base > cap), "{base}, {cap}: {refusals:?}");
        }
    }
}

/// Three minutes: a receiver that is started again. 900 s is the longest delay that a
/// request can ask for.
#[test]
fn by_default_an_outage_of_minutes_does_not_use_up_the_attempts() {
    let template = template();
    let default = |name: &str| number(&template["Parameters"][name]["Default"]);
    let (base, cap) = (default("BackoffBaseSeconds"), default("BackoffCapSeconds"));
    let waits = 0..default("MaxReceiveCount") - 1;
    let longest: i64 = waits.map(|wait| (base << wait).min(cap)).sum();
    // Half of it on average. All of it is part of what callers are promised, as is a delay.
    assert!(longest / 2 >= 180, "{longest} s");
    assert!(longest + 900 <= default("PromisedDelaySeconds"), "{longest} s");
}

/// The consumer would not start.
#[test]
fn a_mail_server_and_a_sender_go_together() {
    let (server, sender) = (("SmtpUrl", "smtps://mail.example.com"), ("EmailFrom", "a@b.example"));
    check(&[server, sender], "");
    check(&[server], "SmtpUrl needs EmailFrom, the sender of e-mails.");
    check(&[sender], "EmailFrom needs SmtpUrl, the server that takes e-mails.");
}

/// The API would let nobody in.
#[test]
fn tokens_have_an_issuer_and_an_audience() {
    let mode = ("AuthMode", "JWT");
    let (issuer, audience) = (("JwtIssuer", "https://issuer.example"), ("JwtAudience", "one,two"));
    check(&[mode, issuer, audience], "");
    check(&[mode, issuer], "AuthMode JWT needs JwtAudience, else it lets nobody in.");
    check(&[mode, audience], "AuthMode JWT needs JwtIssuer, the https URL of the token issuer.");
    check(&[issuer], "");
}

/// AWS refuses it in the middle of a deployment.
#[test]
fn a_large_batch_has_a_window() {
    check(&[("BatchSize", "20"), ("BatchWindowSeconds", "1")], "");
    check(&[("BatchSize", "10"), ("BatchWindowSeconds", "0")], "");
    check(
        &[("BatchSize", "20"), ("BatchWindowSeconds", "0")],
        "A BatchSize over 10 needs a BatchWindowSeconds of at least 1.",
    );
}

#[test]
fn what_nothing_could_be_done_with_is_refused() {
    let template = template();
    let wrong = [
        ("JwtIssuer", "issuer.example"),
        ("SmtpUrl", ""),
        ("SmtpUrl", "mail.example.com"),
        ("WebhookSecrets", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("WebhookSecrets", "{\"partner.example\":"),
        ("AlarmEmail", "operations"),
        ("StageName", "a stage"),
    ];
    assert_eq!(refused(&template, &wrong), wrong);
    let right = [
        ("SmtpUrl", "{{resolve:secretsmanager:relevo/smtp:SecretString:url}}"),
        ("WebhookSecrets", "{{resolve:secretsmanager:relevo/webhooks}}"),
        ("WebhookSecrets", "{\n  \"partner.example\": [\"whsec_a\"]\n}"),
    ];
    assert_eq!(refused(&template, &right), []);
}

/// `sam deploy --guided` asks for what it must not echo until it gets an answer.
#[test]
fn what_is_not_echoed_has_a_word_for_nothing() {
    let template = template();
    let parameters = template["Parameters"].as_object().unwrap();
    let secrets: Vec<_> = parameters.iter().filter(|(_, it)| it["NoEcho"] == true).collect();
    assert_eq!(secrets.len(), 2);
    for (name, secret) in secrets {
        assert_eq!(secret["Default"], "none", "{name}");
    }
}

fn check(parameters: &[(&str, &str)], refusal: &str) {
    let refusals = Expansion::new(&template(), parameters).refusals();
    assert_eq!(refusals.join(" "), refusal, "{parameters:?}");
}

/// Those of these values of parameters that do not keep to what the parameters say.
fn refused<'a>(template: &Value, values: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let parameter = |name: &str| &template["Parameters"][name];
    let pattern = |name: &str| parameter(name)["AllowedPattern"].as_str().unwrap_or("(?s).*");
    let pairs: Vec<_> = values.iter().map(|(name, value)| (pattern(name), *value)).collect();
    let values = values.iter().copied().zip(matches(&pairs));
    let refused = values.filter(|&((name, value), matches)| {
        !(matches && is_listed_and_within_bounds(parameter(name), value))
    });
    refused.map(|(value, _)| value).collect()
}

fn is_listed_and_within_bounds(parameter: &Value, value: &str) -> bool {
    let listed = parameter["AllowedValues"].as_array();
    let bound = |bound: &str| parameter.get(bound).map(number);
    listed.is_none_or(|all| all.iter().any(|one| text(one) == value))
        && bound("MinValue").is_none_or(|least| value.parse::<i64>().unwrap() >= least)
        && bound("MaxValue").is_none_or(|most| value.parse::<i64>().unwrap() <= most)
}
