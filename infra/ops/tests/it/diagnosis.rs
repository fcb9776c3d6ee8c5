//! `cargo ops doctor`, on stacks in the emulator.

use ops::doctor::deployed::Deployed;
use ops::doctor::{Finding, Grade, rules};
use ops::mapping::Mapping;
use ops::stack::Stack;
use serde_json::Value;

use crate::command_line::ops;
use crate::support::{PARAMETERS, end_to_end};

async fn complaints(stack: &Stack) -> Vec<(&'static str, Grade)> {
    let deployed = Deployed::read(stack).await.unwrap();
    let findings = rules::judge(&deployed).into_iter();
    let findings = findings.filter(|finding: &Finding| finding.grade != Grade::Ok);
    findings.map(|finding| (finding.what, finding.grade)).collect()
}

#[test]
fn what_somebody_changed_by_hand_is_found_with_the_way_to_mend_it() {
    end_to_end(async |local| {
        let stack = local.another_stack("doctor", &PARAMETERS).await.unwrap();
        assert_eq!(complaints(&stack).await, []);

        let mapping = Mapping::of(&stack).await.unwrap();
        let queue = stack.outputs.queue_url.as_str();
        let update = ["lambda", "update-event-source-mapping", "--uuid", &mapping.uuid];
        let no_report = ["--no-enabled", "--function-response-types", "[]"];
        stack.aws.call(&[&update[..], &no_report].concat()).await.unwrap();
        let set = ["sqs", "set-queue-attributes", "--queue-url", queue];
        let visibility = ["--attributes", "VisibilityTimeout=30"];
        stack.aws.call(&[&set[..], &visibility].concat()).await.unwrap();

        let mut command = ops(local, &stack, &["doctor", "--json"]);
        let output = command.output().await.unwrap();
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.starts_with("error: there are"), "{stderr}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        let findings = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        // From the stack on, as the rest is about this machine.
        let of_the_stack = findings.skip_while(|finding| finding["what"] != "stack");
        let lines: Vec<_> = of_the_stack.map(|finding| finding.to_string()).collect();
        let said = lines.join("\n").replace(&mapping.uuid, "UUID").replace(queue, "QUEUE");
        insta::assert_snapshot!(said, @r#"
        {"found":"doctor","grade":"ok","what":"stack"}
        {"found":"one, from the queue to the consumer","grade":"ok","what":"event source mapping"}
        {"found":"Disabled","grade":"warning","mend":"`aws lambda update-event-source-mapping --uuid UUID --enabled`, unless `cargo ops poll` or `dev` runs, which switch it off","what":"mapping's state"}
        {"found":"Lambda ignores the consumer's list and deletes failed records: jobs are lost","grade":"problem","mend":"`aws lambda update-event-source-mapping --uuid UUID --function-response-types ReportBatchItemFailures`","what":"failed records"}
        {"found":"10 batches at a time","grade":"ok","what":"concurrency"}
        {"found":"30 s, for a timeout of 10 s and a window of 1 s","grade":"problem","mend":"`aws sqs set-queue-attributes --queue-url QUEUE --attributes VisibilityTimeout=61 --endpoint-url $AWS_ENDPOINT_URL`","what":"visibility timeout"}
        {"found":"arn:aws:sqs:us-east-1:000000000000:doctor-dead-letters","grade":"ok","what":"dead-letter queue"}
        {"found":"queue 5, consumer 5","grade":"ok","what":"receives"}
        {"found":"14 days, the queue's 4 days","grade":"ok","what":"dead letters' life"}
        {"found":"30 days, both queues' 18 days","grade":"ok","what":"entries' life"}
        {"found":"10 s, as the consumer is told","grade":"ok","what":"timeout"}
        {"found":"345600 s, as the consumer is told","grade":"ok","what":"queue's retention"}
        {"found":"producer 256 MB, consumer 256 MB","grade":"ok","what":"memory"}
        "#);
    });
}

#[test]
fn a_stack_that_is_not_there_is_a_problem_and_the_machine_is_looked_at_all_the_same() {
    end_to_end(async |local| {
        let nowhere = Stack { name: "nowhere".to_owned(), ..local.stack.clone() };
        let output = ops(local, &nowhere, &["doctor", "--json"]).output().await.unwrap();
        assert_eq!(output.status.code(), Some(1));
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.contains(r#"{"what":"python","#), "{stdout}");
        let last: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
        assert_eq!((&last["what"], &last["grade"]), (&"stack".into(), &"problem".into()));
        assert!(last["found"].as_str().unwrap().contains("nowhere"), "{last}");
    });
}
