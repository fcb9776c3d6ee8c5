//! An error, as the one sentence that a person gets.

use anyhow::Error;
use aws_sdk_sqs::error::ErrorMetadata;

/// What the SDK says where the cause says more, and nothing or a code follows.
const NOTHING: [&str; 2] = ["service error", "unhandled error"];

/// Signs of what went wrong, and what to do then.
const MENDS: [(&[&str], &str); 4] = [
    (
        &["ResourceNotFoundException", "QueueDoesNotExist", "NonExistentQueue"],
        "`cargo ops doctor` says what the stack lacks",
    ),
    (&["ExpiredToken", "InvalidClientTokenId", "UnrecognizedClientException"], LOG_IN),
    (
        &["AccessDenied", "not authorized"],
        "this caller lacks the permission that is named: ask for it, or name another profile \
         with --profile",
    ),
    (
        &["dispatch failure", "Could not connect to the endpoint"],
        "is there a network, and is the stack still there?",
    ),
];

/// What to do about credentials that nobody takes.
pub(crate) const LOG_IN: &str =
    "log in (`aws sso login`, `aws configure`), or name another profile with --profile";

/// The error with its causes, each said once, and what to do about it if that is known.
#[must_use]
pub fn complaint(error: &Error) -> String {
    let mut said = String::new();
    for cause in error.chain() {
        let cause = cause.downcast_ref().map_or_else(|| cause.to_string(), of_aws);
        if NOTHING.iter().any(|nothing| cause.starts_with(nothing))
            || said.contains(cause.trim_end_matches('.'))
        {
            continue;
        }
        if !said.is_empty() {
            let end = said.trim_end_matches('.').len();
            said.truncate(end);
            said.push_str(": ");
        }
        said.push_str(&cause);
    }
    let is_meant = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
    match MENDS.iter().find(|(signs, mend)| is_meant(signs) && !said.contains(mend)) {
        Some((_, mend)) => format!("{}; {mend}", said.trim_end_matches('.')),
        None => said,
    }
}

/// AWS's own words; the SDK shows an error without a type of its own as Rust code.
fn of_aws(error: &ErrorMetadata) -> String {
    let code = error.code().unwrap_or("an error without a code");
    match error.message() {
        Some(message) => format!("{code}: {message}"),
        None => code.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn check(causes: &[&str], expected: &str) {
        let mut causes = causes.iter().rev().map(|&cause| cause.to_owned());
        let root = anyhow!(causes.next().unwrap());
        assert_eq!(complaint(&causes.fold(root, Error::context)), expected);
    }

    #[test]
    fn causes_are_said_once() {
        check(&["no", "no"], "no");
        check(
            &["could not read the queue", "service error", "Bad: x.", "Bad: x"],
            "could not read the queue: Bad: x.",
        );
        check(&["could not open a", "No such file"], "could not open a: No such file");
    }

    #[test]
    fn what_is_denied_is_named_in_aws_own_words() {
        let denied = "User: arn:aws:iam::1:user/a is not authorized to perform: sqs:SendMessage";
        let metadata = ErrorMetadata::builder().code("AccessDenied").message(denied);
        let error = aws_sdk_sqs::Error::from(
            aws_sdk_sqs::operation::send_message::SendMessageError::generic(metadata.build()),
        );
        let error = Error::from(error).context("could not send");
        assert_eq!(
            complaint(&error),
            format!(
                "could not send: AccessDenied: {denied}; this caller lacks the permission that is \
                 named: ask for it, or name another profile with --profile"
            )
        );
    }

    #[test]
    fn what_is_known_to_help_is_said() {
        check(
            &["could not read the entries", "ResourceNotFoundException: no table"],
            "could not read the entries: ResourceNotFoundException: no table; `cargo ops doctor` \
             says what the stack lacks",
        );
        check(
            &["could not read the queue", "dispatch failure", "refused"],
            "could not read the queue: dispatch failure: refused; is there a network, and is the \
             stack still there?",
        );
    }
}
