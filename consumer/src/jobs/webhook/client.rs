//! The HTTP client of webhooks: it connects only to addresses that were looked
//! at, follows nothing, and repeats nothing.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, redirect, retry};
use tokio::net::lookup_host;
use url::Host;

use super::addresses::is_public;
use super::hosts::{AllowedHosts, Reach, name_of};

/// For the name, the connection and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Many servers close an idle connection after a minute, and a frozen function
/// does not see it. A new connection costs less than a lost delivery.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// The host has no address that may be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host's address is not a public one, and the host is not on the list of allowed ones")]
pub(super) struct NotPublic;

pub(super) fn build(hosts: AllowedHosts) -> reqwest::Result<Client> {
    Client::builder()
        .user_agent(concat!("Relevo/", env!("CARGO_PKG_VERSION")))
        .dns_resolver(LookedAt { hosts })
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        // A proxy would look the name up by itself.
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build()
}

/// Checks a host that is an address: no resolver is asked about those.
pub(super) fn check_literal(host: &Host<&str>) -> Result<(), NotPublic> {
    let address: IpAddr = match host {
        Host::Domain(_) => return Ok(()),
        Host::Ipv4(address) => (*address).into(),
        Host::Ipv6(address) => (*address).into(),
    };
    if is_public(address) { Ok(()) } else { Err(NotPublic) }
}

/// Looks names up, and at what they lead to. The connection is made to what this
/// returns, so a name that leads elsewhere a moment later is no way in.
struct LookedAt {
    hosts: AllowedHosts,
}

impl Resolve for LookedAt {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.hosts.reach(&name_of(name.as_str()));
        Box::pin(async move {
            let found = lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(within(reach, found)?.into_iter()) as Addrs)
        })
    }
}

fn within(reach: Reach, mut found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, NotPublic> {
    match reach {
        Reach::Anywhere => return Ok(found),
        Reach::PublicAddresses => found.retain(|address| is_public(address.ip())),
        Reach::Nowhere => found.clear(),
    }
    if found.is_empty() { Err(NotPublic) } else { Ok(found) }
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
        assert_eq!(within(Reach::Nowhere, mixed), Err(NotPublic));
        let private = addresses(&["127.0.0.1", "::ffff:10.0.0.1"]);
        assert_eq!(within(Reach::PublicAddresses, private), Err(NotPublic));
    }

    #[test]
    fn hidden_literals_are_looked_at() {
        for host in [
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "127.0.0.1.",
            "127\u{ff0e}0\u{ff0e}0\u{ff0e}1",
            "0",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:a9fe:a9fe]",
            "[::127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "169.254.169.254",
            "0xa9fea9fe",
            "[fd00:ec2::254]",
        ] {
            let url = url::Url::parse(&format!("https://{host}/")).unwrap();
            assert_eq!(check_literal(&url.host().unwrap()), Err(NotPublic), "{host}");
        }
        assert_eq!(check_literal(&Host::Ipv4([1, 1, 1, 1].into())), Ok(()));
    }
}
