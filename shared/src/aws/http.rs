//! How requests get to AWS: over HTTP/1.1, which is all that DynamoDB and SQS
//! speak.
//!
//! The SDK's own client can do the same, but brings HTTP/2 along: a megabyte of
//! each function that no request would ever come through.

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::Roots;

/// The roots of Amazon Trust Services, all five, as Amazon asks of those who
/// trust no others.
const AMAZON_ROOTS: &[u8] = include_bytes!("roots.pem");

/// One pool of connections. The SDK's time limit of an attempt is also that of
/// connecting.
#[derive(Clone, Debug)]
pub(super) struct Http(Client<HttpsConnector<Tcp>, SdkBody>);

impl Http {
    /// A client that trusts these authorities.
    ///
    /// # Errors
    ///
    /// The provider has neither TLS 1.2 nor 1.3; ring has both.
    pub(super) fn new(roots: Roots) -> Result<Self, rustls::Error> {
        let tls = ClientConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(trusted(roots))
            .with_no_client_auth();
        let mut tcp = Tcp::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client =
            Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(Self(client))
    }
}

/// Certificates that cannot be read are passed over, as every client does with
/// what a machine has collected.
fn trusted(roots: Roots) -> RootCertStore {
    let certificates = match roots {
        Roots::Amazon => CertificateDer::pem_slice_iter(AMAZON_ROOTS).flatten().collect(),
        Roots::Machine => rustls_native_certs::load_native_certs().certs,
    };
    let mut trusted = RootCertStore::empty();
    trusted.add_parsable_certificates(certificates);
    trusted
}

impl HttpClient for Http {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Http {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => {
                return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into())));
            }
        };
        let sending = self.0.request(request);
        HttpConnectorFuture::new(async move {
            // Nothing that happens to a connection is an answer, so all of it is
            // tried again.
            let response = sending.await.map_err(|error| ConnectorError::io(error.into()))?;
            HttpResponse::try_from(response.map(SdkBody::from_body_1_x))
                .map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amazons_roots_are_all_trusted() {
        assert_eq!(trusted(Roots::Amazon).len(), 5);
    }
}
