//! The payload of `report`: a list of amounts, each in a group.

use std::borrow::Cow;

use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::job::Payload;
#[cfg(feature = "openapi")]
use crate::schema::Schemas;
use crate::validation::{Invalid, read};

/// Rows of one report. With longest groups they fit a message of 1 MiB.
const MAX_ROWS: usize = 10_000;

/// Characters of a title or of a group's name.
const MAX_NAME_CHARS: usize = 200;

/// Digits before the point: 10,000 amounts of 15 + 9 digits add up to less
/// than 28 digits, which [`Decimal`] holds exactly.
const MAX_INTEGER_DIGITS: usize = 15;

/// Digits after the point.
const MAX_FRACTION_DIGITS: usize = 9;

/// Asks for exact figures per group of a list of amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What the report is called, 1 to 200 characters.
    pub title: String,
    /// 1 to 10,000 rows.
    pub rows: Vec<Row>,
}

/// One amount of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The group's name, 1 to 200 characters.
    pub group: String,
    /// Up to 15 digits before the point and 9 after it.
    pub amount: Decimal,
}

// The payload with its rows unread, so that each row that is wrong gets an
// error of its own.
/// Asks for exact figures per group of a list of amounts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Report))]
struct UncheckedReport<'a> {
    /// What the report is called; not only blank.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200, pattern = r"\S"))]
    title: String,
    /// The amounts.
    #[serde(borrow)]
    #[cfg_attr(feature = "openapi", schema(
        value_type = Vec<UncheckedRow<'_>>, min_items = 1, max_items = 10_000
    ))]
    rows: Vec<&'a RawValue>,
}

/// One amount of a group.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Row))]
struct UncheckedRow<'a> {
    /// The group's name; not only blank.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200, pattern = r"\S"))]
    group: String,
    /// A decimal, as text so that it stays exact.
    #[serde(borrow)]
    #[cfg_attr(feature = "openapi", schema(
        value_type = String, pattern = r"^-?[0-9]{1,15}(\.[0-9]{1,9})?$"
    ))]
    amount: Cow<'a, str>,
}

impl Payload for Report {
    const KIND: &'static str = "report";

    #[cfg(feature = "openapi")]
    fn schema() -> Schemas {
        Schemas::of::<UncheckedReport<'_>>()
    }

    fn parse(payload: &RawValue) -> Result<Self, Invalid> {
        let unchecked: UncheckedReport<'_> = read(payload)?;
        let mut invalid = Invalid::default();
        check_name("/title", &unchecked.title, &mut invalid);
        if !(1..=MAX_ROWS).contains(&unchecked.rows.len()) {
            let rows = unchecked.rows.len();
            invalid.push("/rows", format!("has {rows} rows, but must have 1 to {MAX_ROWS}"));
            return invalid.or(Self { title: unchecked.title, rows: Vec::new() });
        }
        let mut rows = Vec::with_capacity(unchecked.rows.len());
        for (position, row) in unchecked.rows.into_iter().enumerate() {
            match parse_row(row) {
                Ok(row) => rows.push(row),
                Err(errors) => invalid.extend(&format!("/rows/{position}"), errors),
            }
        }
        invalid.or(Self { title: unchecked.title, rows })
    }
}

fn parse_row(row: &RawValue) -> Result<Row, Invalid> {
    let unchecked: UncheckedRow<'_> = read(row)?;
    let mut invalid = Invalid::default();
    check_name("/group", &unchecked.group, &mut invalid);
    match parse_amount(&unchecked.amount) {
        Ok(amount) => invalid.or(Row { group: unchecked.group, amount }),
        Err(detail) => {
            invalid.push("/amount", detail);
            Err(invalid)
        }
    }
}

fn check_name(pointer: &str, name: &str, invalid: &mut Invalid) {
    let chars = name.chars().count();
    if name.trim().is_empty() || chars > MAX_NAME_CHARS {
        invalid
            .push(pointer, format!("must have 1 to {MAX_NAME_CHARS} characters, not only blank"));
    }
}

/// Reads `-?digits(.digits)?`. [`Decimal`]'s own parser also takes
/// underscores, a plus sign and rounding, which amounts of money should not.
fn parse_amount(text: &str) -> Result<Decimal, String> {
    let digits = |part: &str, most: usize| {
        (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let fits = match unsigned.split_once('.') {
        Some((integer, fraction)) => {
            digits(integer, MAX_INTEGER_DIGITS) && digits(fraction, MAX_FRACTION_DIGITS)
        }
        None => digits(unsigned, MAX_INTEGER_DIGITS),
    };
    let amount = Decimal::from_str_exact(text).ok().filter(|_| fits);
    // There is no negative zero among amounts.
    let amount = amount.map(|amount| if amount.is_zero() { amount.abs() } else { amount });
    amount.ok_or_else(|| {
        format!(
            "must be a decimal like \"-12.50\", with at most {MAX_INTEGER_DIGITS} digits \
             before the point and {MAX_FRACTION_DIGITS} after it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(payload: &str) -> Result<Report, Invalid> {
        Report::parse(&RawValue::from_string(payload.to_owned()).unwrap())
    }

    fn pointers(payload: &str) -> Vec<String> {
        let invalid = parse(payload).expect_err(payload);
        invalid.errors().iter().map(|error| error.pointer.clone()).collect()
    }

    #[test]
    fn every_wrong_row_is_pointed_at() {
        let payload = r#"{"title":"","rows":[
            {"group":"a","amount":"1"},
            {"group":"a","amount":"1e3"},
            {"group":" ","amount":"x"},
            {"group":"a","amount":1},
            {"group":"a"},
            {"group":"a","amount":"1","note":""}
        ]}"#;
        assert_eq!(
            pointers(payload),
            [
                "/title",
                "/rows/1/amount",
                "/rows/2/group",
                "/rows/2/amount",
                "/rows/3/amount",
                "/rows/4",
                "/rows/5/note"
            ]
        );
    }

    #[test]
    fn payloads_of_another_shape_are_refused() {
        assert_eq!(pointers("{}"), [""]);
        assert_eq!(pointers("[]"), [""]);
        assert_eq!(pointers(r#"{"title":"t","rows":{}}"#), ["/rows"]);
        assert_eq!(pointers(r#"{"title":"t","rows":[]}"#), ["/rows"]);
        assert_eq!(pointers(r#"{"title":"t","rows":[],"extra":1}"#), ["/extra"]);
    }

    #[test]
    fn rows_are_counted_before_they_are_read() {
        let rows = |count: usize| {
            let row = r#"{"group":"a","amount":"1"}"#;
            format!(r#"{{"title":"t","rows":[{}]}}"#, vec![row; count].join(","))
        };
        assert_eq!(parse(&rows(MAX_ROWS)).unwrap().rows.len(), MAX_ROWS);
        assert_eq!(pointers(&rows(MAX_ROWS + 1)), ["/rows"]);
    }

    #[test]
    fn amounts_are_plain_decimals() {
        for (text, expected) in [
            ("0", "0"),
            ("-0.0", "0.0"),
            ("-0.5", "-0.5"),
            ("12.50", "12.50"),
            ("007", "7"),
            ("999999999999999.999999999", "999999999999999.999999999"),
        ] {
            assert_eq!(
                parse_amount(text).map(|amount| amount.to_string()).as_deref(),
                Ok(expected)
            );
        }
        for text in [
            "",
            "-",
            ".5",
            "5.",
            "+1",
            "1_000",
            "1e3",
            " 1",
            "1 ",
            "--1",
            "1.2.3",
            "NaN",
            "\u{661}",
            "1234567890123456",
            "0.1234567890",
        ] {
            assert!(parse_amount(text).is_err(), "{text}");
        }
    }

    #[cfg(feature = "openapi")]
    #[test]
    fn the_schema_says_what_is_checked() {
        let schemas = serde_json::to_value(Report::schema().all).unwrap();
        let check = |pointer: &str, expected: usize| {
            let limit = schemas.pointer(pointer).and_then(serde_json::Value::as_u64);
            assert_eq!(limit, Some(expected as u64), "{pointer} in {schemas:#}");
        };
        check("/Report/properties/rows/maxItems", MAX_ROWS);
        check("/Report/properties/title/maxLength", MAX_NAME_CHARS);
        check("/Row/properties/group/maxLength", MAX_NAME_CHARS);
        let digits =
            format!("^-?[0-9]{{1,{MAX_INTEGER_DIGITS}}}(\\.[0-9]{{1,{MAX_FRACTION_DIGITS}}})?$");
        assert_eq!(schemas["Row"]["properties"]["amount"]["pattern"], digits);
        assert_eq!(schemas["Report"]["additionalProperties"], false);
    }
}
