//! The HTTP API as an OpenAPI 3.1 document, made from the types that answer it.
//!
//! No function that is deployed has this: a test makes the document, adds the
//! examples, and holds `openapi.json`, which [`crate::describe`] serves, to it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use shared::Job;
use shared::schema::Schemas;

use crate::create_jobs::{BatchBody, UncheckedBatch};
use crate::health::Health;
use crate::idempotency_key::MAX_CHARS;
use crate::problem::{ProblemBody, ProblemType as Type};
use crate::submission::UncheckedSubmission;
use crate::view::{AcceptedBody, JobBody};

/// A kind that no deployment has.
const KIND_OF_TESTS: &str = "probe";

/// What any request can be answered.
const ALWAYS: [Type; 2] = [Type::Malformed, Type::CallerUnknown];

/// What a request that needs AWS can be answered.
const OURS: [Type; 2] = [Type::Internal, Type::Unavailable];

/// A key as a token, or as a structured-field string. (Strings may also escape
/// quotes and backslashes by a backslash.)
const KEY_PATTERN: &str = r#"^([!#-+\--~]+|"[ !#-\[\]-~]*[!#-\[\]-~][ !#-\[\]-~]*")$"#;

/// The document, without examples.
#[must_use]
pub fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Relevo",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Takes jobs, answers before they are done, and never does one twice.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        // The stage is put there when the document is served.
        "servers": [{"url": "/"}],
        // Which of them a deployment asks for is its own choice.
        "security": [{"jwt": []}, {"iam": []}, {}],
        "paths": {
            "/jobs": {"post": create_job()},
            "/jobs/batch": {"post": create_jobs()},
            "/jobs/{id}": {
                "parameters": [{
                    "name": "id", "in": "path", "required": true,
                    "description": "The job's id.",
                    "schema": {"type": "string", "format": "uuid"},
                }],
                "get": get_job(),
                "delete": cancel_job(),
            },
            "/health": {"get": {
                "operationId": "health",
                "summary": "Tells that the function runs",
                "responses": responses([(200, answer("The function runs.", "Health", &[]))], &[]),
            }},
            "/openapi.json": {"get": {
                "operationId": "describe",
                "summary": "Gives this document",
                "responses": responses([(200, json!({
                    "description": "This document.",
                    "content": {"application/json": {"schema": {"type": "object"}}},
                }))], &[]),
            }},
        },
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "iam": {
                    "type": "apiKey", "in": "header", "name": "Authorization",
                    "description": "AWS Signature Version 4.",
                },
            },
        },
    })
}

fn create_job() -> Value {
    let problems = [
        Type::BodyMissing,
        Type::InvalidIdempotencyKey,
        Type::TooLarge,
        Type::UnsupportedMediaType,
        Type::InvalidJob,
        Type::IdempotencyKeyReused,
    ];
    let accepted = answer(
        "The job is safe. It may have been accepted before, under the same key.",
        "AcceptedJob",
        &["Location", "Retry-After"],
    );
    json!({
        "operationId": "createJob",
        "summary": "Takes a job",
        "parameters": [{
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "Names the job among the caller's, so that the request can be \
                            repeated: all answers name one job, which is done once.",
            "schema": {"type": "string", "pattern": KEY_PATTERN, "maxLength": MAX_CHARS},
        }],
        "requestBody": body("NewJob"),
        "responses": responses([(202, accepted)], &[&problems[..], &OURS].concat()),
    })
}

fn create_jobs() -> Value {
    let problems = [
        Type::BodyMissing,
        Type::InvalidIdempotencyKey,
        Type::UnsupportedMediaType,
        Type::InvalidJob,
    ];
    let accepted = answer("All jobs are safe.", "BatchAnswer", &["Retry-After"]);
    let mixed = answer("Not all jobs were accepted.", "BatchAnswer", &["Retry-After"]);
    json!({
        "operationId": "createJobs",
        "summary": "Takes many jobs, and answers for each of them",
        "requestBody": body("Batch"),
        "responses": responses(
            [(202, accepted), (207, mixed)], &[&problems[..], &OURS].concat()
        ),
    })
}

fn get_job() -> Value {
    let found = answer("What became of the job.", "Job", &["Retry-After"]);
    json!({
        "operationId": "getJob",
        "summary": "Tells what became of a job",
        "responses": responses([(200, found)], &[&[Type::JobNotFound][..], &OURS].concat()),
    })
}

fn cancel_job() -> Value {
    let problems = [Type::NotTheOwner, Type::JobNotFound, Type::NotCancellable];
    let cancelled = answer("The job is cancelled, now or before.", "Job", &[]);
    json!({
        "operationId": "cancelJob",
        "summary": "Cancels a job that is queued",
        "responses": responses([(200, cancelled)], &[&problems[..], &OURS].concat()),
    })
}

fn body(schema: &str) -> Value {
    json!({"required": true, "content": {"application/json": {"schema": reference(schema)}}})
}

fn answer(description: &str, schema: &str, headers: &[&str]) -> Value {
    let mut answer = json!({
        "description": description,
        "content": {"application/json": {"schema": reference(schema)}},
    });
    with_headers(&mut answer, headers);
    answer
}

fn responses<const N: usize>(good: [(u16, Value); N], problems: &[Type]) -> Value {
    let mut by_status = BTreeMap::<u16, Vec<Type>>::new();
    for problem in ALWAYS.iter().chain(problems) {
        by_status.entry(problem.status().as_u16()).or_default().push(*problem);
    }
    let bad = by_status.into_iter().map(|(status, types)| {
        let lines: Vec<_> =
            types.iter().map(|kind| format!("`{}`: {}", kind.uri(), kind.title())).collect();
        let mut answer = json!({
            "description": lines.join("\n\n"),
            "content": {"application/problem+json": {"schema": reference("Problem")}},
        });
        with_headers(&mut answer, if status == 503 { &["Retry-After"] } else { &[] });
        (status, answer)
    });
    let all = good.into_iter().chain(bad);
    all.map(|(status, answer)| (status.to_string(), answer)).collect::<Map<_, _>>().into()
}

fn with_headers(answer: &mut Value, headers: &[&str]) {
    let described = headers.iter().map(|name| {
        let header = match *name {
            "Location" => json!({
                "description": "Where to ask about the job.",
                "schema": {"type": "string", "format": "uri-reference"},
            }),
            _ => json!({
                "description": "Seconds after which there may be news, or it may work.",
                "schema": {"type": "integer", "minimum": 1},
            }),
        };
        ((*name).to_owned(), header)
    });
    let described: Map<_, _> = described.collect();
    if !described.is_empty() {
        set(answer, "", "headers", described.into());
    }
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// All schemas by their names.
fn schemas() -> Value {
    let mut all = Map::new();
    let answers = [
        Schemas::of::<AcceptedBody>(),
        Schemas::of::<BatchBody>(),
        Schemas::of::<Health>(),
        Schemas::of::<JobBody<'_>>(),
        Schemas::of::<ProblemBody>(),
        Schemas::of::<UncheckedBatch<'_>>(),
    ];
    let kinds: Vec<_> =
        Job::schemas().into_iter().filter(|(kind, _)| *kind != KIND_OF_TESTS).collect();
    for schemas in answers.iter().chain(kinds.iter().map(|(_, payload)| payload)) {
        all.extend(schemas.all.iter().map(|(name, schema)| (name.clone(), json!(schema))));
    }
    for (name, in_batch) in [("NewJob", false), ("BatchJob", true)] {
        all.extend(new_jobs(name, &kinds, in_batch));
    }
    let mut all = Value::from(all);
    let types: Vec<_> = Type::ALL.iter().map(|kind| kind.uri()).collect();
    set(&mut all, "/Problem/properties/type", "enum", json!(types));
    set(&mut all, "/Batch/properties/jobs", "items", reference("BatchJob"));
    all
}

/// Sets a member of the object that `pointer` leads to.
fn set(value: &mut Value, pointer: &str, member: &str, to: Value) {
    if let Some(Value::Object(members)) = value.pointer_mut(pointer) {
        members.insert(member.to_owned(), to);
    }
}

/// What can be asked for: one schema per kind, and one that is any of them.
fn new_jobs(name: &str, kinds: &[(&str, Schemas)], in_batch: bool) -> Map<String, Value> {
    let (mut all, mut any, mut by_kind) = (Map::new(), Vec::new(), Map::new());
    for (kind, payload) in kinds {
        let mut job = json!(<UncheckedSubmission<'_> as utoipa::PartialSchema>::schema());
        set(&mut job, "/properties/kind", "const", json!(kind));
        set(&mut job, "/properties", "payload", reference(&payload.name));
        if let (false, Some(properties)) = (in_batch, job.pointer_mut("/properties")) {
            properties.as_object_mut().map(|fields| fields.remove("idempotency_key"));
        }
        let name = format!("{name}Of{}", payload.name);
        any.push(reference(&name));
        by_kind.insert((*kind).to_owned(), format!("#/components/schemas/{name}").into());
        all.insert(name, job);
    }
    let discriminator = json!({"propertyName": "kind", "mapping": by_kind});
    all.insert(name.to_owned(), json!({"oneOf": any, "discriminator": discriminator}));
    all
}

#[cfg(test)]
mod tests {
    use shared::validation::MAX_ERRORS;

    use super::*;
    use crate::create_jobs::MAX_JOBS;
    use crate::submission::{MAX_DELAY_SECONDS, MAX_GROUP_CHARS};

    #[test]
    fn the_document_says_what_is_checked() {
        let schemas = schemas();
        for (pointer, expected) in [
            ("/Batch/properties/jobs/maxItems", MAX_JOBS),
            ("/BatchJobOfReport/properties/delay_seconds/maximum", MAX_DELAY_SECONDS.into()),
            ("/BatchJobOfReport/properties/group/maxLength", MAX_GROUP_CHARS),
            ("/BatchJobOfReport/properties/idempotency_key/maxLength", MAX_CHARS),
            ("/Problem/properties/errors/maxItems", MAX_ERRORS),
        ] {
            assert_eq!(schemas.pointer(pointer), Some(&json!(expected)), "{pointer}");
        }
        assert_eq!(schemas.pointer("/NewJobOfReport/properties/idempotency_key"), None);
    }
}
