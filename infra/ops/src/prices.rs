//! Prices of AWS by region, each with the day of the price list that states it.
//!
//! AWS's pages fill in their prices by a script, from a price list that anyone may
//! read and whose every version is kept:
//! `https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/<offer>/current/<region>/index.json`
//! (`…/<offer>/index.json` names the older ones, by day). The figures here are those
//! that published excerpts of it state; always the first tier, before anything is
//! free. None is looked up when the command runs: a price that changed is changed
//! here, and the test over `infra/README.md` asks for its figures.

use clap::ValueEnum;
use serde::Serialize;

/// One price.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// Dollars.
    pub dollars: f64,
    /// When the list was published that states it; ISO 8601.
    pub listed: &'static str,
}

/// What is paid for, by what AWS's price list calls the service.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    // AmazonApiGateway.
    /// A million requests to an HTTP API, 512 KiB each.
    pub million_api_requests: Price,
    // AWSLambda.
    /// A million invocations.
    pub million_invocations: Price,
    /// A GB-second on arm64.
    pub arm64_gb_second: Price,
    /// A GB-second on `x86_64`.
    pub x86_64_gb_second: Price,
    // AWSQueueService.
    /// A million requests to a standard queue, 64 KiB each.
    pub million_sqs_requests: Price,
    /// What a message group adds to a million of them.
    pub million_fair_requests: Price,
    // AmazonDynamoDB.
    /// A million write request units.
    pub million_write_units: Price,
    /// A million read request units.
    pub million_read_units: Price,
    /// A GiB in a table, for a month.
    pub table_gib_month: Price,
    /// Point-in-time recovery of a GiB in a table, for a month, however far back:
    /// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/PointInTimeRecovery_Howitworks.html>
    pub recovery_gib_month: Price,
    // AmazonCloudWatch.
    /// A GiB sent to a log.
    pub log_gib: Price,
    /// A metric of one's own, for a month.
    pub metric_month: Price,
    /// A metric that an alarm watches, for a month.
    pub alarm_month: Price,
    /// A dashboard, for a month.
    pub dashboard_month: Price,
}

/// A region whose prices are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
pub enum Region {
    /// N. Virginia.
    #[default]
    #[value(name = "us-east-1")]
    #[serde(rename = "us-east-1")]
    UsEast1,
    /// Ireland.
    #[value(name = "eu-west-1")]
    #[serde(rename = "eu-west-1")]
    EuWest1,
    /// Frankfurt.
    #[value(name = "eu-central-1")]
    #[serde(rename = "eu-central-1")]
    EuCentral1,
}

impl Region {
    /// Its prices.
    #[must_use]
    pub const fn prices(self) -> &'static Prices {
        match self {
            Self::UsEast1 => &US_EAST_1,
            Self::EuWest1 => &EU_WEST_1,
            Self::EuCentral1 => &EU_CENTRAL_1,
        }
    }

    /// AWS's name for it.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl Prices {
    /// The days of the oldest and of the newest list that these are of.
    #[must_use]
    pub fn listed(&self) -> (&'static str, &'static str) {
        let days = self.all().map(|price| price.listed);
        let oldest = days.into_iter().min().unwrap_or_default();
        (oldest, days.into_iter().max().unwrap_or_default())
    }

    const fn all(&self) -> [Price; 14] {
        [
            self.million_api_requests,
            self.million_invocations,
            self.arm64_gb_second,
            self.x86_64_gb_second,
            self.million_sqs_requests,
            self.million_fair_requests,
            self.million_write_units,
            self.million_read_units,
            self.table_gib_month,
            self.recovery_gib_month,
            self.log_gib,
            self.metric_month,
            self.alarm_month,
            self.dashboard_month,
        ]
    }
}

const fn price(dollars: f64, listed: &'static str) -> Price {
    Price { dollars, listed }
}

/// The list has one price for all regions, under the location "Any"; the day is that
/// of <https://www.factualminds.com/blog/amazon-cloudwatch-pricing-metrics-logs-alarms-dashboards/>.
const DASHBOARD: Price = price(3.00, "2026-06-13");

const US_EAST_1: Prices = Prices {
    million_api_requests: price(1.00, "2026-09-21"),
    million_invocations: price(0.20, "2026-08-31"),
    arm64_gb_second: price(0.000_013_333_4, "2026-08-31"),
    x86_64_gb_second: price(0.000_016_666_7, "2026-08-31"),
    million_sqs_requests: price(0.40, "2026-09-11"),
    million_fair_requests: price(0.10, "2025-08-28"),
    million_write_units: price(0.625, "2026-09-11"),
    million_read_units: price(0.125, "2026-09-11"),
    table_gib_month: price(0.25, "2026-08-15"),
    recovery_gib_month: price(0.20, "2026-08-15"),
    log_gib: price(0.50, "2026-09-15"),
    metric_month: price(0.30, "2026-08-31"),
    alarm_month: price(0.10, "2026-08-31"),
    dashboard_month: DASHBOARD,
};

const EU_WEST_1: Prices = Prices {
    million_api_requests: price(1.11, "2026-10-02"),
    million_invocations: price(0.20, "2026-10-01"),
    arm64_gb_second: price(0.000_013_333_4, "2026-10-01"),
    x86_64_gb_second: price(0.000_016_666_7, "2026-10-01"),
    million_sqs_requests: price(0.40, "2026-09-11"),
    million_fair_requests: price(0.10, "2025-08-28"),
    million_write_units: price(0.705, "2026-09-11"),
    million_read_units: price(0.1415, "2026-09-11"),
    table_gib_month: price(0.283, "2026-09-11"),
    // Not 0.8 of what the table costs, as in the other regions: the list says so.
    recovery_gib_month: price(0.22, "2026-09-11"),
    log_gib: price(0.57, "2026-09-22"),
    metric_month: price(0.30, "2026-09-22"),
    alarm_month: price(0.10, "2026-09-22"),
    dashboard_month: DASHBOARD,
};

const EU_CENTRAL_1: Prices = Prices {
    million_api_requests: price(1.20, "2026-09-11"),
    million_invocations: price(0.20, "2026-09-19"),
    arm64_gb_second: price(0.000_013_333_4, "2026-09-19"),
    // From the list that was current on this day.
    x86_64_gb_second: price(0.000_016_666_7, "2026-10-07"),
    million_sqs_requests: price(0.40, "2025-08-28"),
    million_fair_requests: price(0.10, "2025-08-28"),
    million_write_units: price(0.7625, "2026-09-11"),
    million_read_units: price(0.1525, "2026-09-11"),
    table_gib_month: price(0.306, "2026-08-15"),
    recovery_gib_month: price(0.2448, "2026-08-15"),
    log_gib: price(0.63, "2026-08-06"),
    metric_month: price(0.30, "2026-08-06"),
    alarm_month: price(0.10, "2026-08-06"),
    dashboard_month: DASHBOARD,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_says_which_list_it_is_of() {
        for region in Region::value_variants() {
            for price in region.prices().all() {
                let is_a_day = price.listed.len() == 10 && price.listed.starts_with("20");
                assert!(is_a_day && price.dollars > 0.0, "{region:?}: {price:?}");
            }
        }
    }

    #[test]
    fn a_region_has_one_name() {
        for region in Region::value_variants() {
            assert_eq!(serde_json::to_value(region).unwrap(), region.name());
        }
    }

    #[test]
    fn prices_are_as_old_as_the_oldest_of_them() {
        assert_eq!(US_EAST_1.listed(), ("2025-08-28", "2026-09-21"));
    }
}
