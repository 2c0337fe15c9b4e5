//! The agent on a real engine, asked over mutual TLS.
