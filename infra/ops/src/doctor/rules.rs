//! What a deployment has to be like, whoever has changed it by hand.
//!
//! The template makes it so. Each rule says which promise, or which rule of AWS, is
//! behind it.

use serde_json::json;

use super::deployed::{Deployed, Function};
use super::{Finding, Grade};
use crate::mapping::{Mapping, REPORTS_FAILURES};

/// AWS asks for six times the function's timeout, so that Lambda can retry a
/// throttled batch while it stays hidden:
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
const VISIBILITY_FACTOR: u64 = 6;

/// Less is what AWS refuses for a mapping.
const LEAST_CONCURRENCY: u64 = 2;

/// Receives are counted before any code runs: with fewer, a throttled invocation
/// alone would march a sound message into the dead-letter queue.
const LEAST_RECEIVES: u64 = 3;

/// What the template has unless it is told otherwise.
const USUAL_RECEIVES: u64 = 5;

/// What the template gives the queue.
const USUAL_RETENTION: u64 = 4 * SECONDS_PER_DAY;

/// What the template gives entries, in days.
const USUAL_LIFE: u64 = 30;

/// SQS's name for how long a queue keeps a message.
const RETENTION: &str = "MessageRetentionPeriod";

/// CPU comes with memory, and below this a start takes longer than it saves.
const LEAST_MEMORY: u64 = 256;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Holds every rule against a deployment.
#[must_use]
pub fn judge(deployed: &Deployed) -> Vec<Finding> {
    let mut findings = vec![the_mapping(deployed)];
    if let [mapping] = &*deployed.mappings {
        findings.extend([
            takes_messages(mapping, deployed.is_on_aws),
            reports_failures(mapping),
            concurrency(mapping, &deployed.consumer),
            visibility(deployed, mapping),
        ]);
    }
    findings.extend([
        dead_letters(deployed),
        receives(deployed),
        dead_letters_life(deployed),
        entries_life(deployed),
        timeout(&deployed.consumer),
        retention(deployed),
        memory(deployed),
    ]);
    if deployed.is_on_aws {
        findings.extend([expiry(deployed), alarms(deployed)]);
    }
    findings
}

fn the_mapping(deployed: &Deployed) -> Finding {
    const WHAT: &str = "event source mapping";
    let (found, mend) = match &*deployed.mappings {
        [_] => return Finding::ok(WHAT, "one, from the queue to the consumer"),
        [] => (
            "nothing takes messages from the queue to the consumer".to_owned(),
            format!(
                "`aws lambda create-event-source-mapping --function-name {} --event-source-arn {} \
                 --batch-size 10 --maximum-batching-window-in-seconds 1 --scaling-config \
                 MaximumConcurrency=10 --function-response-types {REPORTS_FAILURES}`, with your \
                 own BatchSize, BatchWindowSeconds and MaximumConcurrency: a deployment makes it \
                 only where it changes it",
                deployed.consumer.name, deployed.queue.arn
            ),
        ),
        all => {
            let delete = |mapping: &Mapping| {
                format!("`aws lambda delete-event-source-mapping --uuid {}`", mapping.uuid)
            };
            let found = format!("{} share the queue's messages", all.len());
            let mend = format!(
                "`aws cloudformation describe-stack-resource --stack-name {} \
                 --logical-resource-id QueueToConsumer` names the template's own; delete the rest: {}",
                deployed.stack,
                all.iter().map(delete).collect::<Vec<_>>().join(" or ")
            );
            (found, mend)
        }
    };
    Finding::check(WHAT, false, Grade::Problem, found, mend)
}

fn takes_messages(mapping: &Mapping, is_on_aws: bool) -> Finding {
    // In the emulator, `cargo ops dev` and `poll` have switched it off on purpose.
    let grade = if is_on_aws { Grade::Problem } else { Grade::Warning };
    Finding::check(
        "mapping's state",
        mapping.is_on(),
        grade,
        mapping.state.clone(),
        format!(
            "{}, unless `cargo ops poll` or `dev` runs, which switch it off",
            update(mapping, "--enabled")
        ),
    )
}

fn reports_failures(mapping: &Mapping) -> Finding {
    let found = if mapping.reports_failures {
        "only what failed comes back"
    } else {
        "Lambda ignores the consumer's list and deletes failed records: jobs are lost"
    };
    let mend = update(mapping, &format!("--function-response-types {REPORTS_FAILURES}"));
    Finding::check("failed records", mapping.reports_failures, Grade::Problem, found, mend)
}

fn concurrency(mapping: &Mapping, consumer: &Function) -> Finding {
    const WHAT: &str = "concurrency";
    let Some(maximum) = mapping.maximum_concurrency else {
        let mend = update(mapping, "--scaling-config MaximumConcurrency=10");
        let found = "the mapping has no limit, so a backlog may use up the account's";
        return Finding::check(WHAT, false, Grade::Warning, found, mend);
    };
    let reserved = consumer.reserved.unwrap_or(u64::MAX);
    let found = match consumer.reserved {
        Some(reserved) => format!("{maximum} batches at a time, {reserved} set aside"),
        None => format!("{maximum} batches at a time"),
    };
    if maximum < LEAST_CONCURRENCY {
        let mend = format!("--scaling-config MaximumConcurrency={LEAST_CONCURRENCY}");
        return Finding::check(WHAT, false, Grade::Problem, found, update(mapping, &mend));
    }
    // The pollers would receive what cannot run, and each refusal costs a receive.
    let name = &consumer.name;
    let mend = format!(
        "`aws lambda delete-function-concurrency --function-name {name}`, or with \
         ReserveConcurrency=true `aws lambda put-function-concurrency --function-name {name} \
         --reserved-concurrent-executions {maximum}`"
    );
    Finding::check(WHAT, reserved >= maximum, Grade::Problem, found, mend)
}

fn visibility(deployed: &Deployed, mapping: &Mapping) -> Finding {
    let (timeout, visibility) = (deployed.consumer.timeout, deployed.queue.visibility);
    let least = VISIBILITY_FACTOR * timeout + mapping.window;
    Finding::check(
        "visibility timeout",
        visibility >= least,
        Grade::Problem,
        format!(
            "{visibility} s, for a timeout of {timeout} s and a window of {} s",
            mapping.window
        ),
        set(&deployed.queue.url, "VisibilityTimeout", least),
    )
}

fn dead_letters(deployed: &Deployed) -> Finding {
    let wanted = &deployed.dead_letters.arn;
    let target = deployed.queue.redrive.as_ref().map(|(target, _)| target);
    let found = target.map_or("none: what fails is tried until SQS deletes it", String::as_str);
    let receives = deployed.consumer.number("MAX_RECEIVE_COUNT").unwrap_or(USUAL_RECEIVES);
    let mend = redrive_after(deployed, receives);
    Finding::check("dead-letter queue", target == Some(wanted), Grade::Problem, found, mend)
}

fn receives(deployed: &Deployed) -> Finding {
    const WHAT: &str = "receives";
    let queue = deployed.queue.redrive.as_ref().map(|(_, count)| *count);
    let consumer = deployed.consumer.number("MAX_RECEIVE_COUNT");
    let show = |count: Option<u64>| count.map_or("none".to_owned(), |count| count.to_string());
    let found = format!("queue {}, consumer {}", show(queue), show(consumer));
    let tell = |count| set_variable(&deployed.consumer, "MAX_RECEIVE_COUNT", count);
    if queue != consumer {
        // The consumer has to know which receive is the last.
        let mend = match (consumer, queue) {
            (Some(count), _) => redrive_after(deployed, count),
            (None, count) => tell(count.unwrap_or(USUAL_RECEIVES)),
        };
        return Finding::check(WHAT, false, Grade::Problem, found, mend);
    }
    let mend = format!("{} and {}", redrive_after(deployed, LEAST_RECEIVES), tell(LEAST_RECEIVES));
    Finding::check(WHAT, queue >= Some(LEAST_RECEIVES), Grade::Warning, found, mend)
}

fn dead_letters_life(deployed: &Deployed) -> Finding {
    const LONGEST: u64 = 14 * SECONDS_PER_DAY;
    let (queue, letters) = (deployed.queue.retention, deployed.dead_letters.retention);
    // A dead letter's age goes on counting from when its message was first sent.
    let mut mends = Vec::new();
    if letters < LONGEST {
        mends.push(set(&deployed.dead_letters.url, RETENTION, LONGEST));
    }
    if queue >= LONGEST {
        mends.push(set(&deployed.queue.url, RETENTION, USUAL_RETENTION));
    }
    Finding::check(
        "dead letters' life",
        letters > queue,
        Grade::Problem,
        format!("{}, the queue's {}", days(letters), days(queue)),
        mends.join(" and "),
    )
}

fn entries_life(deployed: &Deployed) -> Finding {
    let both = deployed.queue.retention + deployed.dead_letters.retention;
    let life = |function: &Function| {
        function.number("ENTRY_TTL_DAYS").unwrap_or_default().saturating_mul(SECONDS_PER_DAY)
    };
    let functions = [&deployed.producer, &deployed.consumer];
    let least = functions.map(life).into_iter().min().unwrap_or_default();
    // Else a redrive may run a job again that has succeeded.
    let wanted = (both / SECONDS_PER_DAY + 1).max(USUAL_LIFE);
    let short_lived = functions.into_iter().filter(|function| life(function) <= both);
    let mends = short_lived.map(|function| set_variable(function, "ENTRY_TTL_DAYS", wanted));
    Finding::check(
        "entries' life",
        least > both,
        Grade::Problem,
        format!("{}, both queues' {}", days(least), days(both)),
        mends.collect::<Vec<_>>().join(" and "),
    )
}

fn timeout(consumer: &Function) -> Finding {
    told(consumer, "FUNCTION_TIMEOUT_SECONDS", "timeout", consumer.timeout, |told| {
        configure(consumer, &format!("--timeout {told}"))
    })
}

fn retention(deployed: &Deployed) -> Finding {
    let (consumer, queue) = (&deployed.consumer, &deployed.queue);
    told(consumer, "QUEUE_RETENTION_SECONDS", "queue's retention", queue.retention, |told| {
        set(&queue.url, RETENTION, told)
    })
}

/// The consumer counts on what it is told; `mend` makes that true.
fn told(
    consumer: &Function,
    variable: &str,
    what: &'static str,
    is: u64,
    mend: impl FnOnce(u64) -> String,
) -> Finding {
    match consumer.number(variable) {
        Some(told) if told == is => Finding::ok(what, format!("{is} s, as the consumer is told")),
        Some(told) => {
            let found = format!("{is} s, and the consumer is told {told} s");
            Finding::check(what, false, Grade::Problem, found, mend(told))
        }
        None => {
            let found = format!("{is} s, and the consumer is not told");
            let mend = set_variable(consumer, variable, is);
            Finding::check(what, false, Grade::Problem, found, mend)
        }
    }
}

fn memory(deployed: &Deployed) -> Finding {
    let functions = [&deployed.producer, &deployed.consumer];
    let poor = functions.into_iter().filter(|function| function.memory < LEAST_MEMORY);
    // CPU comes with it, and a start needs some.
    let mends = poor.map(|function| configure(function, &format!("--memory-size {LEAST_MEMORY}")));
    let mends: Vec<_> = mends.collect();
    let [producer, consumer] = functions.map(|function| function.memory);
    Finding::check(
        "memory",
        mends.is_empty(),
        Grade::Warning,
        format!("producer {producer} MB, consumer {consumer} MB"),
        mends.join(" and "),
    )
}

fn expiry(deployed: &Deployed) -> Finding {
    let found = deployed.expires_by.as_deref();
    let expire = |attribute: &str, enabled: bool| {
        format!(
            "`aws dynamodb update-time-to-live --table-name {} --time-to-live-specification \
             Enabled={enabled},AttributeName={attribute}`",
            deployed.table
        )
    };
    let mend = match found {
        None => expire("expires_at", true),
        // DynamoDB takes one change an hour.
        Some(other) => {
            format!("{}, and an hour later {}", expire(other, false), expire("expires_at", true))
        }
    };
    Finding::check(
        "expiry of entries",
        found == Some("expires_at"),
        Grade::Warning,
        found.map_or("none: the table only grows".to_owned(), |name| format!("by {name}")),
        mend,
    )
}

fn alarms(deployed: &Deployed) -> Finding {
    let count = deployed.subscribers;
    Finding::check(
        "alarms",
        count > 0,
        Grade::Warning,
        format!("{count} subscribers"),
        format!(
            "`aws sns subscribe --topic-arn {} --protocol email --notification-endpoint \
             YOU@EXAMPLE.COM`, and confirm the e-mail; or deploy with AlarmEmail",
            deployed.topic
        ),
    )
}

fn update(mapping: &Mapping, change: &str) -> String {
    format!("`aws lambda update-event-source-mapping --uuid {} {change}`", mapping.uuid)
}

fn set(queue_url: &str, attribute: &str, value: u64) -> String {
    set_attributes(queue_url, &format!("{attribute}={value}"))
}

fn set_attributes(queue_url: &str, attributes: &str) -> String {
    // `aws sqs` goes to AWS, whatever the URL of the queue is.
    let is_aws = queue_url.contains(".amazonaws.com");
    let endpoint = if is_aws { "" } else { " --endpoint-url $AWS_ENDPOINT_URL" };
    format!(
        "`aws sqs set-queue-attributes --queue-url {queue_url} \
         --attributes {attributes}{endpoint}`"
    )
}

/// Gives the queue its dead-letter queue, after so many receives.
fn redrive_after(deployed: &Deployed, receives: u64) -> String {
    let policy = json!({
        "deadLetterTargetArn": deployed.dead_letters.arn,
        "maxReceiveCount": receives.to_string(),
    });
    let attributes = json!({ "RedrivePolicy": policy.to_string() });
    set_attributes(&deployed.queue.url, &format!("'{attributes}'"))
}

fn configure(function: &Function, change: &str) -> String {
    let name = &function.name;
    // Of the answer one word: the rest of it has the function's secrets.
    format!(
        "`aws lambda update-function-configuration --function-name {name} {change} \
         --query LastUpdateStatus`"
    )
}

/// Changes one variable; AWS's own command replaces them all.
fn set_variable(function: &Function, variable: &str, value: u64) -> String {
    let name = &function.name;
    configure(
        function,
        &format!(
            "--environment \"$(aws lambda get-function-configuration --function-name {name} \
             --query Environment --output json | jq -c '.Variables.{variable} = \"{value}\"')\""
        ),
    )
}

fn days(seconds: u64) -> String {
    if seconds.is_multiple_of(SECONDS_PER_DAY) {
        format!("{} days", seconds / SECONDS_PER_DAY)
    } else {
        format!("{seconds} s")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::doctor::deployed::Queue;

    fn sound() -> Deployed {
        let variables = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
            all.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        Deployed {
            stack: "relevo".to_owned(),
            table: "jobs".to_owned(),
            topic: "arn:topic".to_owned(),
            is_on_aws: true,
            mappings: vec![Mapping {
                uuid: "u".to_owned(),
                state: "Enabled".to_owned(),
                batch_size: 10,
                window: 1,
                reports_failures: true,
                maximum_concurrency: Some(10),
            }],
            queue: Queue {
                url: "queue".to_owned(),
                arn: "arn:queue".to_owned(),
                visibility: 181,
                retention: 4 * SECONDS_PER_DAY,
                redrive: Some(("arn:letters".to_owned(), 5)),
            },
            dead_letters: Queue {
                url: "letters".to_owned(),
                arn: "arn:letters".to_owned(),
                retention: 14 * SECONDS_PER_DAY,
                ..Queue::default()
            },
            producer: Function {
                name: "producer".to_owned(),
                memory: 256,
                variables: variables(&[("ENTRY_TTL_DAYS", "30")]),
                ..Function::default()
            },
            consumer: Function {
                name: "consumer".to_owned(),
                timeout: 30,
                memory: 256,
                variables: variables(&[
                    ("ENTRY_TTL_DAYS", "30"),
                    ("MAX_RECEIVE_COUNT", "5"),
                    ("FUNCTION_TIMEOUT_SECONDS", "30"),
                    ("QUEUE_RETENTION_SECONDS", "345600"),
                ]),
                reserved: Some(10),
            },
            expires_by: Some("expires_at".to_owned()),
            subscribers: 1,
        }
    }

    /// What is not as it should be.
    fn complaints(deployed: &Deployed) -> Vec<(&'static str, Grade)> {
        let findings = judge(deployed).into_iter();
        findings
            .filter(|finding| finding.grade != Grade::Ok)
            .inspect(|finding| {
                let mend = finding.mend.as_deref().unwrap_or_default();
                assert!(mend.starts_with("`aws "), "nothing to paste: {finding:?}");
            })
            .map(|finding| (finding.what, finding.grade))
            .collect()
    }

    #[test]
    fn what_the_template_makes_is_sound() {
        assert_eq!(complaints(&sound()), []);
        let unreserved =
            Deployed { consumer: Function { reserved: None, ..sound().consumer }, ..sound() };
        assert_eq!(complaints(&unreserved), []);
    }

    type Break = fn(&mut Deployed);

    #[test]
    fn every_broken_setting_is_found_and_only_that() {
        use Grade::{Problem, Warning};
        let table: &[(&str, Grade, Break)] = &[
            ("event source mapping", Problem, |it| it.mappings.clear()),
            ("event source mapping", Problem, |it| it.mappings.push(it.mappings[0].clone())),
            ("mapping's state", Problem, |it| it.mappings[0].state = "Disabled".to_owned()),
            ("mapping's state", Problem, |it| it.mappings[0].state = "Disabling".to_owned()),
            ("failed records", Problem, |it| it.mappings[0].reports_failures = false),
            ("concurrency", Warning, |it| it.mappings[0].maximum_concurrency = None),
            ("concurrency", Problem, |it| it.mappings[0].maximum_concurrency = Some(1)),
            ("concurrency", Problem, |it| it.mappings[0].maximum_concurrency = Some(11)),
            ("concurrency", Problem, |it| it.consumer.reserved = Some(9)),
            ("visibility timeout", Problem, |it| it.queue.visibility = 180),
            ("visibility timeout", Problem, |it| it.mappings[0].window = 2),
            ("dead-letter queue", Problem, |it| it.dead_letters.arn = "arn:other".to_owned()),
            ("receives", Problem, |it| it.queue.redrive.as_mut().unwrap().1 = 4),
            ("receives", Problem, |it| {
                it.consumer.variables.remove("MAX_RECEIVE_COUNT");
            }),
            ("receives", Warning, |it| {
                it.queue.redrive.as_mut().unwrap().1 = 2;
                it.consumer.variables.insert("MAX_RECEIVE_COUNT".to_owned(), "2".to_owned());
            }),
            ("dead letters' life", Problem, |it| {
                it.dead_letters.retention = it.queue.retention;
            }),
            ("entries' life", Problem, |it| {
                it.producer.variables.insert("ENTRY_TTL_DAYS".to_owned(), "18".to_owned());
            }),
            ("entries' life", Problem, |it| {
                it.consumer.variables.remove("ENTRY_TTL_DAYS");
            }),
            ("timeout", Problem, |it| {
                let name = "FUNCTION_TIMEOUT_SECONDS".to_owned();
                it.consumer.variables.insert(name, "31".to_owned());
            }),
            ("queue's retention", Problem, |it| {
                it.consumer.variables.remove("QUEUE_RETENTION_SECONDS");
            }),
            ("memory", Warning, |it| it.consumer.memory = 128),
            ("memory", Warning, |it| it.producer.memory = 128),
            ("expiry of entries", Warning, |it| it.expires_by = None),
            ("expiry of entries", Warning, |it| it.expires_by = Some("ttl".to_owned())),
            ("alarms", Warning, |it| it.subscribers = 0),
        ];
        for (what, grade, break_it) in table {
            let mut deployed = sound();
            break_it(&mut deployed);
            assert_eq!(complaints(&deployed), [(*what, *grade)], "{what}");
        }
    }

    #[test]
    fn what_mends_a_setting_sets_what_was_changed() {
        let set = "`aws sqs set-queue-attributes --queue-url";
        let configure = "`aws lambda update-function-configuration --function-name";
        let table: &[(Break, &[&str])] = &[
            (
                |it| it.consumer.reserved = Some(0),
                &[
                    "`aws lambda delete-function-concurrency --function-name consumer`",
                    "--reserved-concurrent-executions 10`",
                ],
            ),
            (
                |it| it.queue.redrive.as_mut().unwrap().0 = "arn:other".to_owned(),
                &[
                    set,
                    r#" queue --attributes '{"RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:letters\",\"maxReceiveCount\":\"5\"}"}'"#,
                ],
            ),
            (|it| it.queue.redrive.as_mut().unwrap().1 = 4, &[r#"\"maxReceiveCount\":\"5\""#]),
            (
                |it| it.dead_letters.retention = SECONDS_PER_DAY,
                &[set, " letters --attributes MessageRetentionPeriod=1209600"],
            ),
            (|it| it.consumer.timeout = 60, &[configure, " consumer --timeout 30 "]),
            (|it| it.producer.memory = 128, &[configure, " producer --memory-size 256 "]),
            (
                |it| {
                    it.consumer.variables.remove("QUEUE_RETENTION_SECONDS");
                },
                &[configure, r#"jq -c '.Variables.QUEUE_RETENTION_SECONDS = "345600"')""#],
            ),
            (
                |it| it.queue.retention = SECONDS_PER_DAY,
                &[set, " queue --attributes MessageRetentionPeriod=345600"],
            ),
        ];
        for (break_it, expected) in table {
            let mut deployed = sound();
            break_it(&mut deployed);
            let mends: Vec<_> = judge(&deployed).into_iter().filter_map(|it| it.mend).collect();
            for words in *expected {
                assert!(mends.iter().any(|mend| mend.contains(words)), "{words} in {mends:?}");
            }
        }
    }

    #[test]
    fn without_a_redrive_policy_the_consumer_waits_for_a_last_receive_in_vain() {
        let deployed = Deployed { queue: Queue { redrive: None, ..sound().queue }, ..sound() };
        let expected = [("dead-letter queue", Grade::Problem), ("receives", Grade::Problem)];
        assert_eq!(complaints(&deployed), expected);
    }

    /// It expires nothing and tells nobody, and nobody can mend that.
    #[test]
    fn the_emulator_is_not_held_to_what_it_does_not_do() {
        let mut deployed =
            Deployed { is_on_aws: false, expires_by: None, subscribers: 0, ..sound() };
        assert_eq!(complaints(&deployed), []);
        deployed.mappings[0].state = "Disabled".to_owned();
        assert_eq!(complaints(&deployed), [("mapping's state", Grade::Warning)]);
    }
}
