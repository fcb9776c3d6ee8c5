//! A token issuer on this machine: its key, its documents, its tokens.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use ops::process;
use ops::tools::Tools;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The name of its one key.
const KEY_ID: &str = "the-only-one";

/// Makes a key. The tools' Python has the library that the emulator checks with;
/// a key that lies in the repository would look like a leaked one.
const NEW_KEY: &str = "
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import *
key = generate_private_key(65537, 2048)
pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
print(pem.decode())
";

/// An issuer that answers as long as the tests run.
pub(crate) struct Issuer {
    /// Its address, which is its name.
    pub(crate) url: String,
    key: EncodingKey,
}

impl Issuer {
    /// Makes a key and serves its public half.
    pub(crate) async fn start(tools: &Tools) -> Self {
        let mut command = tools.command("python");
        command.args(["-c", NEW_KEY]);
        let pem = process::run(command, |_| ()).await.unwrap();
        assert!(pem.status.success(), "{}", pem.output());
        let key = EncodingKey::from_rsa_pem(pem.stdout.join("\n").as_bytes()).unwrap();
        let mut public = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
        public.common.key_id = Some(KEY_ID.to_owned());

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let keys = json!({ "keys": [public] });
        let discovery = json!({ "issuer": url, "jwks_uri": format!("{url}/keys") });
        tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                answer(connection, &discovery, &keys).await;
            }
        });
        Self { url, key }
    }

    /// A token with these claims.
    pub(crate) fn token(&self, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::RS256);
        header.kid = Some(KEY_ID.to_owned());
        encode(&header, claims, &self.key).unwrap()
    }
}

/// Answers one request for one of the two documents.
async fn answer(mut connection: TcpStream, discovery: &Value, keys: &Value) {
    let mut request = vec![0; 4096];
    let length = connection.read(&mut request).await.unwrap_or_default();
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    let (status, body) = match request.split(' ').nth(1) {
        Some("/.well-known/openid-configuration") => ("200 OK", discovery.to_string()),
        Some("/keys") => ("200 OK", keys.to_string()),
        _ => ("404 Not Found", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    // Whoever asked may have gone; the next one asks anew.
    let _ = connection.write_all(format!("{head}{body}").as_bytes()).await;
}
