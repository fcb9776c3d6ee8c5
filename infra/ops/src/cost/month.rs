//! What a stack costs a month besides its jobs.

use serde::Serialize;

use super::{DAYS_PER_MONTH, ENTRY_KIB, KIB_PER_GIB, Load, MILLION};

/// Lambda's pollers while nothing is there: five, each waiting 20 s.
const IDLE_RECEIVES_PER_DAY: f64 = 5.0 * 86_400.0 / 20.0;
/// Metrics that are kept once; those of a kind are kept for all kinds together
/// as well. `README.md` has them all.
const METRICS: f64 = 7.0;
/// Metrics that are kept for each kind.
const METRICS_OF_A_KIND: f64 = 9.0;
/// An assumption: reasons for dead letters that a kind has seen in a month, each
/// of which is a metric.
const REASONS_OF_A_KIND: f64 = 2.0;
/// The template's alarms, each of which watches one metric.
const ALARMS: f64 = 8.0;
/// How long an entry lives: the template's `JobEntry.TtlDays`.
const ENTRY_DAYS: f64 = 30.0;

/// Dollars for a month.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Month {
    /// Receives of an empty queue, without end.
    pub polling: f64,
    /// The functions' own metrics.
    pub metrics: f64,
    /// Alarms and the dashboard.
    pub alarms_and_dashboard: f64,
    /// Entries in the table, for as long as they live.
    pub entries: f64,
    /// What lets the table be put back to any second of the last month.
    pub point_in_time_recovery: f64,
    /// All of it.
    pub total: f64,
}

impl Month {
    /// Each part with its name.
    #[must_use]
    pub const fn parts(&self) -> [(&'static str, f64); 5] {
        [
            ("polling of an empty queue", self.polling),
            ("metrics", self.metrics),
            ("alarms and dashboard", self.alarms_and_dashboard),
            ("entries in the table", self.entries),
            ("point-in-time recovery", self.point_in_time_recovery),
        ]
    }
}

/// What a month of such a stack costs, besides what each job costs.
#[must_use]
pub fn month(load: &Load) -> Month {
    let prices = load.region.prices();
    let polling =
        IDLE_RECEIVES_PER_DAY * DAYS_PER_MONTH / MILLION * prices.million_sqs_requests.dollars;
    let of_kinds = METRICS_OF_A_KIND * (1.0 + load.kinds) + REASONS_OF_A_KIND * load.kinds;
    let metrics = (METRICS + of_kinds) * prices.metric_month.dollars;
    let alarms_and_dashboard = ALARMS * prices.alarm_month.dollars + prices.dashboard_month.dollars;
    let entry_kib = ENTRY_KIB + load.result_kib;
    let table_gib = load.jobs_per_day * ENTRY_DAYS * entry_kib / KIB_PER_GIB;
    let entries = table_gib * prices.table_gib_month.dollars;
    // By the table's size, however far back and however much was written.
    let point_in_time_recovery = table_gib * prices.recovery_gib_month.dollars;
    let total = polling + metrics + alarms_and_dashboard + entries + point_in_time_recovery;
    Month { polling, metrics, alarms_and_dashboard, entries, point_in_time_recovery, total }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::{LOAD, near};
    use super::*;
    use crate::prices::Region;
    use crate::workspace::Workspace;

    #[test]
    fn an_idle_queue_is_polled_all_the_same() {
        near(month(&LOAD).polling, 21_600.0 * 30.0 * 0.4 / 1e6);
    }

    #[test]
    fn every_kind_has_metrics_of_its_own() {
        near(month(&LOAD).metrics, (7.0 + 9.0 * 4.0 + 2.0 * 3.0) * 0.3);
    }

    #[test]
    fn the_readmes_metrics_are_counted() {
        let readme = fs::read_to_string(Workspace::here().path("README.md")).unwrap();
        let rows = readme.lines().skip_while(|line| !line.starts_with("| metric |")).skip(2);
        let dimensions = rows.map_while(|row| row.split('|').nth(2).map(str::trim));
        let dimensions: Vec<_> = dimensions.collect();
        let of_a_kind = dimensions.iter().filter(|of| of.starts_with("Kind")).count();
        near(METRICS_OF_A_KIND, f64::from(u32::try_from(of_a_kind).unwrap()));
        // The one by function is two: the producer's and the consumer's.
        let once = dimensions.len() - of_a_kind + 1;
        near(METRICS, f64::from(u32::try_from(once).unwrap()));
    }

    #[test]
    fn the_templates_alarms_are_counted() {
        let template = fs::read_to_string(Workspace::here().template()).unwrap();
        let alarms = template.matches("Type: AWS::CloudWatch::Alarm").count();
        near(ALARMS, f64::from(u32::try_from(alarms).unwrap()));
    }

    #[test]
    fn entries_are_kept_for_a_month() {
        let gib = 1e6 * 30.0 * 0.5 / (1024.0 * 1024.0);
        near(month(&LOAD).entries, gib * 0.25);
    }

    #[test]
    fn what_is_kept_can_be_put_back_and_that_costs_by_its_size() {
        let gib = 1e6 * 30.0 * 0.5 / (1024.0 * 1024.0);
        let month = month(&LOAD);
        near(month.point_in_time_recovery, gib * 0.2);
        let ireland = super::month(&Load { region: Region::EuWest1, ..LOAD });
        near(ireland.point_in_time_recovery, gib * 0.22);
        let parts = month.parts().map(|(_, dollars)| dollars);
        near(month.total, parts.iter().sum());
    }
}
