//! Where webhooks may go, as a deployment configures it.
//!
//! Asked at the door, and again by the delivery, since a message may be older
//! than the rules. Addresses behind a name are for the delivery alone.

use std::net::IpAddr;

use url::{Host, Url};

use super::addresses::is_public;
use super::hosts::{AllowedHosts, Reach, name, name_of};
use crate::config::Environment;

/// The destinations that are allowed: where nothing is configured, every host
/// at a public address, by https.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    /// `WEBHOOK_ALLOWED_HOSTS`
    hosts: AllowedHosts,
    /// `WEBHOOK_ALLOW_HTTP`
    allow_http: bool,
}

/// Why a URL is no allowed destination, as a sentence without its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// It says `http`.
    #[error("must begin with https://: only https is allowed")]
    Http,
    /// There is a list, and its host is not on it.
    #[error("must name another host: this one is not on the list of allowed hosts")]
    Unlisted,
    /// Its address is not a public one, and the configuration does not name it.
    #[error(
        "must name another host: the host's address is not a public one, and the host is not on \
         the list of allowed ones"
    )]
    NotPublic,
}

impl Destinations {
    /// Reads the variables; `None` after every problem was noted.
    pub fn read<L: Fn(&str) -> Option<String>>(env: &mut Environment<L>) -> Option<Self> {
        let hosts = env.optional("WEBHOOK_ALLOWED_HOSTS", AllowedHosts::default());
        let allow_http = env.optional("WEBHOOK_ALLOW_HTTP", false);
        Some(Self { hosts: hosts?, allow_http: allow_http? })
    }

    /// Checks what can be seen of a destination without looking its name up.
    ///
    /// # Errors
    ///
    /// It is forbidden, and stays so until the configuration changes.
    pub fn check(&self, url: &Url) -> Result<(), Forbidden> {
        if url.scheme() != "https" && !self.allow_http {
            return Err(Forbidden::Http);
        }
        let host = url.host().ok_or(Forbidden::Unlisted)?;
        match self.hosts.reach(&name(&host)) {
            Reach::Anywhere => Ok(()),
            Reach::PublicAddresses => check_literal(&host),
            Reach::Nowhere => Err(Forbidden::Unlisted),
        }
    }

    /// Where the host of this domain may be.
    #[must_use]
    pub fn reach(&self, domain: &str) -> Reach {
        self.hosts.reach(&name_of(domain))
    }
}

/// Checks a host that is an address: no resolver is asked about those.
fn check_literal(host: &Host<&str>) -> Result<(), Forbidden> {
    let address: IpAddr = match host {
        Host::Domain(_) => return Ok(()),
        Host::Ipv4(address) => (*address).into(),
        Host::Ipv6(address) => (*address).into(),
    };
    if is_public(address) { Ok(()) } else { Err(Forbidden::NotPublic) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hosts: &str, allow_http: bool, url: &str, expected: Result<(), Forbidden>) {
        let destinations = Destinations { hosts: hosts.parse().unwrap(), allow_http };
        let parsed = Url::parse(url).unwrap();
        assert_eq!(destinations.check(&parsed), expected, "{url} by \"{hosts}\"");
    }

    #[test]
    fn http_and_hosts_are_what_the_configuration_allows() {
        check("*", false, "https://partner.example", Ok(()));
        check("*", false, "http://partner.example", Err(Forbidden::Http));
        check("*", true, "http://partner.example", Ok(()));
        check("partner.example", false, "http://partner.example", Err(Forbidden::Http));
        check("partner.example", false, "https://Partner.Example.:8443", Ok(()));
        check("partner.example", true, "https://evil.example", Err(Forbidden::Unlisted));
        check("10.0.0.7", true, "http://10.0.0.7", Ok(()));
        check("10.0.0.7", true, "http://10.0.0.8", Err(Forbidden::Unlisted));
        check("10.0.0.7,*", true, "http://10.0.0.8", Err(Forbidden::NotPublic));
        check("*", true, "data:text/plain,x", Err(Forbidden::Unlisted));
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
            check("*", false, &format!("https://{host}/"), Err(Forbidden::NotPublic));
        }
        check("*", false, "https://1.1.1.1/", Ok(()));
    }
}
