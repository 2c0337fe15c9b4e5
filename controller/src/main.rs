//! `plumb`: the operators' command, and the processes it can run.

#[tokio::main]
async fn main() -> std::process::ExitCode {
    plumbline_controller::cli::main().await
}
