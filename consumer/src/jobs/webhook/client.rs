//! The HTTP client of webhooks: it connects only to addresses that are allowed,
//! follows no redirects, and repeats no request.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, redirect, retry};
use rustls::crypto::ring;
use shared::jobs::webhook::hosts::Reach;
use shared::jobs::webhook::{Destinations, Forbidden, is_public};
use tokio::net::lookup_host;

/// For the name, the connection and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Many servers close an idle connection after a minute, and a frozen function
/// does not see it. A new connection costs less than a lost delivery.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) fn build(destinations: Destinations) -> reqwest::Result<Client> {
    // For this whole process, and the first time only; the client takes it from
    // there. The AWS SDK brings the same one along: a second would be a megabyte.
    let _ = ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("Relevo/", env!("CARGO_PKG_VERSION")))
        .dns_resolver(LookedAt { destinations })
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        // A proxy would look the name up by itself.
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build()
}

/// Looks names up, and at what they lead to. The connection is made to what this
/// returns, so a name that leads elsewhere a moment later is no way in.
struct LookedAt {
    destinations: Destinations,
}

impl Resolve for LookedAt {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.destinations.reach(name.as_str());
        Box::pin(async move {
            let found = lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(within(reach, found)?.into_iter()) as Addrs)
        })
    }
}

fn within(reach: Reach, mut found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Forbidden> {
    match reach {
        Reach::Anywhere => return Ok(found),
        Reach::PublicAddresses => found.retain(|address| is_public(address.ip())),
        Reach::Nowhere => found.clear(),
    }
    if found.is_empty() { Err(Forbidden::NotPublic) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect()
    }

    #[test]
    fn only_public_addresses_are_returned_for_a_name_that_is_not_listed() {
        let mixed = addresses(&["10.0.0.1", "1.1.1.1", "::1", "169.254.169.254"]);
        assert_eq!(within(Reach::PublicAddresses, mixed.clone()), Ok(addresses(&["1.1.1.1"])));
        assert_eq!(within(Reach::Anywhere, mixed.clone()), Ok(mixed.clone()));
        assert_eq!(within(Reach::Nowhere, mixed), Err(Forbidden::NotPublic));
        let private = addresses(&["127.0.0.1", "::ffff:10.0.0.1"]);
        assert_eq!(within(Reach::PublicAddresses, private), Err(Forbidden::NotPublic));
    }
}
