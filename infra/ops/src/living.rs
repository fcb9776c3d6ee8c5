//! The functions' processes in an emulator, for whoever wants to end some.

use std::fs;

use rustix::process::Pid;

/// The processes of a function that find AWS at `endpoint`.
#[must_use]
pub fn processes_of(function: &str, endpoint: &str) -> Vec<Pid> {
    let ours =
        [format!("AWS_LAMBDA_FUNCTION_NAME={function}"), format!("AWS_ENDPOINT_URL={endpoint}")];
    let is_ours = |process: &fs::DirEntry| {
        let variables = fs::read(process.path().join("environ")).unwrap_or_default();
        let variables = String::from_utf8_lossy(&variables);
        ours.iter().all(|wanted| variables.split('\0').any(|variable| variable == wanted))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter(is_ours);
    processes
        .filter_map(|process| process.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .collect()
}
