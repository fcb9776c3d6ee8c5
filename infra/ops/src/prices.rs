//! Prices of AWS in us-east-1, each with a page that states it, and when it did.
//!
//! AWS's own pages fill in their prices by a script, so these are pages that quote
//! them. None of them is looked up when the command runs: a price that changed is
//! changed here, and the test over `infra/README.md` asks for its figures.

/// One price.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// Dollars.
    pub dollars: f64,
    /// A page that states it.
    pub source: &'static str,
    /// When it did; ISO 8601, as exact as the page is.
    pub stated: &'static str,
}

/// What is paid for.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// A million requests to an HTTP API, 512 KiB each.
    pub million_api_requests: Price,
    /// A million invocations.
    pub million_invocations: Price,
    /// A GB-second on arm64.
    pub arm64_gb_second: Price,
    /// A GB-second on `x86_64`.
    pub x86_64_gb_second: Price,
    /// A million requests to a standard queue, 64 KiB each.
    pub million_sqs_requests: Price,
    /// What a message group adds to a million of them.
    pub million_fair_requests: Price,
    /// A million write request units.
    pub million_write_units: Price,
    /// A million read request units.
    pub million_read_units: Price,
    /// A GiB sent to a log.
    pub log_gib: Price,
    /// A metric of one's own, for a month.
    pub metric_month: Price,
    /// A metric that an alarm watches, for a month.
    pub alarm_month: Price,
    /// A dashboard, for a month.
    pub dashboard_month: Price,
    /// A GiB in a table, for a month.
    pub table_gib_month: Price,
}

/// Where and when the prices hold, as far as is known.
pub const PRICES_OF: &str = "us-east-1, as stated in 2024 to 2026";

/// The prices.
pub const PRICES: Prices = Prices {
    million_api_requests: Price {
        dollars: 1.00,
        source: "https://go-cloud.io/aws-api-gateway-pricing",
        stated: "2026",
    },
    million_invocations: Price {
        dollars: 0.20,
        source: "https://cloudchipr.com/blog/aws-lambda-pricing",
        stated: "2024",
    },
    arm64_gb_second: Price {
        dollars: 0.000_013_333_4,
        source: "https://cloudchipr.com/blog/aws-lambda-pricing",
        stated: "2024",
    },
    x86_64_gb_second: Price {
        dollars: 0.000_016_666_7,
        source: "https://cloudchipr.com/blog/aws-lambda-pricing",
        stated: "2024",
    },
    million_sqs_requests: Price {
        dollars: 0.40,
        source: "https://cloudburn.io/blog/amazon-sqs-pricing",
        stated: "2026-03",
    },
    million_fair_requests: Price {
        dollars: 0.10,
        source: "https://cloudburn.io/blog/amazon-sqs-pricing",
        stated: "2026-03",
    },
    million_write_units: Price {
        dollars: 0.625,
        source: "https://airbyte.com/data-engineering-resources/dynamodb-pricing",
        stated: "2025",
    },
    million_read_units: Price {
        dollars: 0.125,
        source: "https://airbyte.com/data-engineering-resources/dynamodb-pricing",
        stated: "2025",
    },
    log_gib: Price {
        dollars: 0.50,
        source: "https://go-cloud.io/aws-api-gateway-pricing",
        stated: "2026",
    },
    metric_month: Price {
        dollars: 0.30,
        source: "https://cal53.calculator.city/cloudwatch-custom-metrics-calculator/",
        stated: "2026",
    },
    alarm_month: Price {
        dollars: 0.10,
        source: "https://c3x.dev/resources/aws/aws_cloudwatch_metric_alarm",
        stated: "2026",
    },
    dashboard_month: Price {
        dollars: 3.00,
        source: "https://www.factualminds.com/blog/amazon-cloudwatch-pricing-metrics-logs-alarms-dashboards/",
        stated: "2026-06-13",
    },
    table_gib_month: Price {
        dollars: 0.25,
        source: "https://aws.amazon.com/dynamodb/pricing/",
        stated: "2025",
    },
};
