//! `report`: exact figures per group of a list of amounts.
//!
//! All arithmetic is decimal. Sum, minimum, maximum and median are exact; a
//! mean that has no short decimal form is rounded half to even at
//! [`MEAN_FRACTION_DIGITS`].

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use serde::Serialize;
use shared::jobs::Report;

use crate::handler::{JobContext, JobError};

/// Digits after the point of a mean. With 15 before it, a [`Decimal`] holds
/// them all.
const MEAN_FRACTION_DIGITS: u32 = 12;

/// The result of a report.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Summary<'a> {
    title: &'a str,
    /// Sorted by name, code point by code point.
    groups: Vec<Figures<'a>>,
    total: Figures<'a>,
}

/// Figures of a group, or of all rows. Amounts are texts in JSON, so that no
/// reader makes binary floats of them.
#[derive(Debug, PartialEq, Serialize)]
struct Figures<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    count: usize,
    sum: String,
    min: String,
    max: String,
    mean: String,
    median: String,
}

#[expect(clippy::unused_async, reason = "every handler is async; this one only computes")]
pub(super) async fn run<'a>(
    report: &'a Report,
    _context: &JobContext,
) -> Result<Summary<'a>, JobError> {
    Ok(summarize(report))
}

fn summarize(report: &Report) -> Summary<'_> {
    let mut groups: BTreeMap<&str, Vec<Decimal>> = BTreeMap::new();
    for row in &report.rows {
        groups.entry(&row.group).or_default().push(row.amount);
    }
    let all = report.rows.iter().map(|row| row.amount).collect();
    Summary {
        title: &report.title,
        groups: groups.into_iter().map(|(group, amounts)| figures(Some(group), amounts)).collect(),
        total: figures(None, all),
    }
}

fn figures(group: Option<&str>, mut amounts: Vec<Decimal>) -> Figures<'_> {
    amounts.sort_unstable();
    let sum: Decimal = amounts.iter().sum();
    let text = |amount: Option<Decimal>| amount.unwrap_or_default().to_string();
    Figures {
        group,
        count: amounts.len(),
        sum: sum.to_string(),
        min: text(amounts.first().copied()),
        max: text(amounts.last().copied()),
        mean: mean(sum, amounts.len()).to_string(),
        median: median(&amounts).to_string(),
    }
}

/// The quotient, rounded once: in integers, so that no digit is lost before.
fn mean(sum: Decimal, count: usize) -> Decimal {
    let count = i128::try_from(count).unwrap_or(1).max(1);
    let shift = MEAN_FRACTION_DIGITS.saturating_sub(sum.scale());
    let scaled = sum.mantissa() * 10_i128.pow(shift);
    let (quotient, rest) = (scaled / count, scaled % count);
    let half = (rest.abs() * 2).cmp(&count);
    let up = half.is_gt() || (half.is_eq() && quotient % 2 != 0);
    let rounded = if up { quotient + scaled.signum() } else { quotient };
    Decimal::from_i128_with_scale(rounded, sum.scale() + shift).normalize()
}

fn median(sorted: &[Decimal]) -> Decimal {
    let at = |position: usize| sorted.get(position).copied().unwrap_or_default();
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return at(middle);
    }
    ((at(middle.saturating_sub(1)) + at(middle)) / Decimal::TWO).normalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shared::jobs::Row;

    use super::*;

    fn report(rows: &[(&str, &str)]) -> Report {
        Report {
            title: "t".to_owned(),
            rows: rows
                .iter()
                .map(|(group, amount)| Row {
                    group: (*group).to_owned(),
                    amount: amount.parse().unwrap(),
                })
                .collect(),
        }
    }

    fn check(amounts: &[&str], expected: [&str; 5]) {
        let amounts = amounts.iter().map(|amount| amount.parse().unwrap()).collect();
        let figures = figures(None, amounts);
        let [sum, min, max, mean, median] = expected;
        let found = [&*figures.sum, &*figures.min, &*figures.max, &*figures.mean, &*figures.median];
        assert_eq!(found, [sum, min, max, mean, median]);
    }

    #[test]
    fn figures_are_exact() {
        check(&["0.1", "0.2"], ["0.3", "0.1", "0.2", "0.15", "0.15"]);
        check(&["12.50"], ["12.50", "12.50", "12.50", "12.5", "12.50"]);
        check(&["1", "1", "2"], ["4", "1", "2", "1.333333333333", "1"]);
        check(&["1", "-2", "-1"], ["-2", "-2", "1", "-0.666666666667", "-1"]);
        let large = "999999999999999.999999999";
        check(&[large, large], ["1999999999999999.999999998", large, large, large, large]);
    }

    #[test]
    fn means_round_half_to_even() {
        let at_scale_12 = |mantissa| Decimal::from_i128_with_scale(mantissa, 12);
        assert_eq!(mean(at_scale_12(5), 2), at_scale_12(2));
        assert_eq!(mean(at_scale_12(7), 2), at_scale_12(4));
        assert_eq!(mean(at_scale_12(-5), 2), at_scale_12(-2));
        assert_eq!(mean(at_scale_12(-7), 2), at_scale_12(-4));
    }

    #[test]
    fn groups_come_in_the_order_of_their_names() {
        let report = report(&[("b", "1"), ("é", "2"), ("a", "3"), ("b", "4")]);
        let json = serde_json::to_value(summarize(&report)).unwrap();
        let names: Vec<_> =
            json["groups"].as_array().unwrap().iter().map(|group| &group["group"]).collect();
        assert_eq!(names, ["a", "b", "é"]);
        assert_eq!(json["groups"][1]["sum"], "5");
        assert_eq!(json["total"]["count"], 4);
    }

    #[test]
    fn the_largest_report_does_not_overflow() {
        let row = ("g", "999999999999999.999999999");
        let report = report(&vec![row; 10_000]);
        let summary = summarize(&report).total;
        assert_eq!(summary.sum, "9999999999999999999.999990000");
        assert_eq!(summary.mean, "999999999999999.999999999");
    }

    proptest! {
        #[test]
        fn totals_do_not_depend_on_the_order_of_rows(
            mut amounts in prop::collection::vec((-1_000_000_i64..1_000_000, 0_u32..9), 1..50),
        ) {
            let decimals = |amounts: &[(i64, u32)]| {
                amounts.iter().map(|(mantissa, scale)| Decimal::new(*mantissa, *scale)).collect()
            };
            let forward: Vec<Decimal> = decimals(&amounts);
            amounts.reverse();
            let (one, other) = (figures(None, forward), figures(None, decimals(&amounts)));
            let value = |text: &str| text.parse::<Decimal>().unwrap();
            prop_assert_eq!(value(&one.sum), value(&other.sum));
            prop_assert_eq!(one.mean, other.mean);
            prop_assert_eq!(value(&one.median), value(&other.median));
            prop_assert_eq!(value(&one.min), value(&other.min));
        }
    }
}
