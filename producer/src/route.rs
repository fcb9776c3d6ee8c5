//! Finds the code that answers, by a request's method and path.
//!
//! One slash at the end of a path changes nothing, on every gateway. HEAD is
//! answered like GET, without a body. OPTIONS is not: cross-origin rules are
//! the gateway's to answer.

use lambda_http::http::Method;
use shared::{JobId, JobTable};

use crate::Producer;
use crate::answer::Answer;
use crate::cancel_job::cancel_job;
use crate::create_job::create_job;
use crate::create_jobs::create_jobs;
use crate::describe::describe;
use crate::get_job::get_job;
use crate::health::health;
use crate::problem::ProblemType;
use crate::queue::JobQueue;
use crate::refusal::Refusal;
use crate::request::Request;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    CreateJob,
    CreateJobs,
    GetJob(JobId),
    CancelJob(JobId),
    Describe,
    Health,
}

/// Answers a request.
///
/// # Errors
///
/// The [`Refusal`] says what to answer instead, and what to log.
pub(crate) async fn answer(
    producer: &Producer<impl JobTable, impl JobQueue>,
    request: &Request,
) -> Result<Answer, Refusal> {
    match route(&request.method, &request.path)? {
        Route::CreateJob => {
            create_job(producer, request).await.map_err(|refusal| refusal.of_jobs(1))
        }
        Route::CreateJobs => create_jobs(producer, request).await,
        Route::GetJob(id) => get_job(producer, request, id).await,
        Route::CancelJob(id) => cancel_job(producer, request, id).await,
        Route::Describe => Ok(describe(request)),
        Route::Health => Ok(health()),
    }
}

fn route(method: &Method, path: &str) -> Result<Route, Refusal> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments: Vec<_> = path.split('/').skip(1).collect();
    match segments[..] {
        ["jobs"] => post_only(method, Route::CreateJob),
        ["jobs", "batch"] => post_only(method, Route::CreateJobs),
        ["jobs", id] => match id.parse() {
            Ok(id) => match *method {
                Method::GET | Method::HEAD => Ok(Route::GetJob(id)),
                Method::DELETE => Ok(Route::CancelJob(id)),
                _ => Err(Refusal::method_not_allowed("GET, HEAD, DELETE")),
            },
            // What is no id names no job, and never will.
            Err(_) => Err(Refusal::job_not_found()),
        },
        ["openapi.json"] => read_only(method, Route::Describe),
        ["health"] => read_only(method, Route::Health),
        _ => Err(Refusal::new(ProblemType::NotFound, "There is nothing at this path.")),
    }
}

fn post_only(method: &Method, route: Route) -> Result<Route, Refusal> {
    match *method {
        Method::POST => Ok(route),
        _ => Err(Refusal::method_not_allowed("POST")),
    }
}

fn read_only(method: &Method, route: Route) -> Result<Route, Refusal> {
    match *method {
        Method::GET | Method::HEAD => Ok(route),
        _ => Err(Refusal::method_not_allowed("GET, HEAD")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "abfc2f07-0372-443d-8266-36440aa5df13";

    fn status(method: &Method, path: &str) -> u16 {
        match route(method, path) {
            Ok(_) => 200,
            Err(refusal) => refusal.problem.to_answer().status.as_u16(),
        }
    }

    #[test]
    fn every_path_has_its_methods() {
        let job = format!("/jobs/{ID}");
        for (path, methods) in [
            ("/jobs", "POST"),
            ("/jobs/batch", "POST"),
            (&job, "GET, HEAD, DELETE"),
            ("/health", "GET, HEAD"),
            ("/openapi.json", "GET, HEAD"),
        ] {
            for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
                let allowed = methods.split(", ").any(|allowed| allowed == method);
                let method = Method::from_bytes(method.as_bytes()).unwrap();
                let expected = if allowed { 200 } else { 405 };
                assert_eq!(status(&method, path), expected, "{method} {path}");
                assert_eq!(status(&method, &format!("{path}/")), expected, "{method} {path}/");
            }
        }
    }

    #[test]
    fn other_paths_are_not_found() {
        for path in [
            "",
            "/",
            "//",
            "//jobs",
            "/jobs//",
            "/jobs/a b",
            "/jobs/a%20b",
            "/Jobs",
            "jobs",
            "/jobs/batch/1",
            "/jobs/1/2",
            "/prod/jobs",
            "/healthy",
        ] {
            assert_eq!(status(&Method::POST, path), 404, "{path}");
            assert_eq!(status(&Method::GET, path), 404, "{path}");
        }
    }
}
