//! Sets of template parameters that everything about the template must hold for.

/// A name, and what differs from the template's defaults.
pub type ParameterSet = (&'static str, &'static [(&'static str, &'static str)]);

/// The defaults, both ends of every range, and each other way to deploy, but for
/// `TrafficShift`: the emulator refuses what a shift is made of ("Unrecognized resource
/// types" of `CodeDeploy`).
pub const PARAMETER_SETS: [ParameterSet; 6] = [
    ("defaults", &[]),
    (
        "smallest",
        &[
            ("BackoffBaseSeconds", "1"),
            ("BackoffCapSeconds", "1"),
            ("BacklogMessages", "1"),
            ("BatchConcurrency", "1"),
            ("BatchSize", "1"),
            ("BatchWindowSeconds", "0"),
            ("ConsumerTimeout", "10"),
            ("GroupWrites", "false"),
            ("KeepData", "false"),
            ("LogLevel", "error"),
            ("LogRetentionDays", "1"),
            ("MaximumConcurrency", "2"),
            ("MaxReceiveCount", "3"),
            ("PromisedDelaySeconds", "60"),
            ("ReserveConcurrency", "true"),
            ("ThrottleBurst", "1"),
            ("ThrottleRate", "1"),
        ],
    ),
    (
        "largest",
        &[
            ("AlarmEmail", "operations@example.com"),
            ("BackoffBaseSeconds", "900"),
            ("BackoffCapSeconds", "34500"),
            ("BatchConcurrency", "1000"),
            ("BatchSize", "100"),
            ("BatchWindowSeconds", "20"),
            ("ConsumerTimeout", "900"),
            ("KeepData", "true"),
            ("LogLevel", "trace"),
            ("LogRetentionDays", "365"),
            ("MaximumConcurrency", "1000"),
            ("MaxReceiveCount", "10"),
            ("StageName", "production"),
        ],
    ),
    (
        "tokens",
        &[
            ("AuthMode", "JWT"),
            ("JwtAudience", "one,two"),
            ("JwtIssuer", "https://issuer.example.com"),
            ("KeepData", "false"),
        ],
    ),
    ("x86_64", &[("Architecture", "x86_64"), ("KeepData", "false")]),
    (
        "receivers",
        &[
            ("EmailFrom", "jobs@example.com"),
            ("KeepData", "false"),
            ("SmtpUrl", "smtps://user:pass%40word@mail.example.com"),
            ("WebhookAllowedHosts", "partner.example,other.example"),
            ("WebhookSecrets", r#"{"partner.example":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}"#),
        ],
    ),
];
