//! Which hosts webhooks may go to.

use std::collections::BTreeSet;
use std::str::FromStr;

use url::Host;

/// Stands for every host, at a public address.
const EVERY_HOST: &str = "*";

/// Hosts that a deployment names. One that is named may have any address, since
/// whoever named it knows where it is; `*` lets in all others at public ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHosts {
    named: BTreeSet<String>,
    others: Reach,
}

/// Where a host may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Wherever its name leads.
    Anywhere,
    /// On the internet.
    PublicAddresses,
    /// It is not to be connected to.
    Nowhere,
}

impl AllowedHosts {
    /// Where the host of this name may be.
    #[must_use]
    pub fn reach(&self, name: &str) -> Reach {
        if self.named.contains(name) { Reach::Anywhere } else { self.others }
    }
}

impl Default for AllowedHosts {
    fn default() -> Self {
        Self { named: BTreeSet::new(), others: Reach::PublicAddresses }
    }
}

impl FromStr for AllowedHosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut hosts = Self { named: BTreeSet::new(), others: Reach::Nowhere };
        for entry in text.split(',').map(str::trim) {
            if entry == EVERY_HOST {
                hosts.others = Reach::PublicAddresses;
            } else {
                hosts.named.insert(parse(entry)?);
            }
        }
        Ok(hosts)
    }
}

/// Reads a host's name as configuration writes it: without scheme and port.
///
/// # Errors
///
/// It is no host.
pub fn parse(text: &str) -> Result<String, String> {
    if text.contains(EVERY_HOST) {
        return Err(format!("\"{text}\" is no host: a star stands for every host, or for none"));
    }
    let host = Host::parse(text).map_err(|error| format!("\"{text}\" is no host: {error}"))?;
    Ok(name(&host))
}

/// The one spelling of a host.
#[must_use]
pub fn name<S: AsRef<str>>(host: &Host<S>) -> String {
    match host {
        Host::Domain(domain) => name_of(domain.as_ref()),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_canonical().to_string(),
    }
}

/// The one spelling of a domain: DNS does not tell upper from lower case, nor a
/// final dot from none.
pub(super) fn name_of(domain: &str) -> String {
    domain.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, host: &str, expected: Reach) {
        let hosts: AllowedHosts = list.parse().unwrap();
        let url = url::Url::parse(&format!("https://{host}/")).unwrap();
        assert_eq!(hosts.reach(&name(&url.host().unwrap())), expected, "{host} by \"{list}\"");
    }

    #[test]
    fn without_a_list_the_internet_is_allowed() {
        let hosts = AllowedHosts::default();
        assert_eq!(hosts.reach("partner.example"), Reach::PublicAddresses);
        assert_eq!(hosts.reach("127.0.0.1"), Reach::PublicAddresses);
    }

    #[test]
    fn a_list_is_all_that_is_allowed_unless_it_has_a_star() {
        check("erp.internal, 10.0.0.7", "erp.internal", Reach::Anywhere);
        check("erp.internal, 10.0.0.7", "10.0.0.7", Reach::Anywhere);
        check("erp.internal, 10.0.0.7", "10.0.0.8", Reach::Nowhere);
        check("erp.internal", "partner.example", Reach::Nowhere);
        check("erp.internal,*", "partner.example", Reach::PublicAddresses);
    }

    #[test]
    fn a_host_has_one_spelling() {
        check("ERP.Internal.", "erp.internal", Reach::Anywhere);
        check("erp.internal", "ERP.INTERNAL.", Reach::Anywhere);
        check("b\u{fc}cher.example", "xn--bcher-kva.example", Reach::Anywhere);
        check("127.0.0.1", "2130706433", Reach::Anywhere);
        check("127.0.0.1", "[::ffff:127.0.0.1]", Reach::Anywhere);
        check("[::1]", "[0:0:0:0:0:0:0:1]", Reach::Anywhere);
        check("erp.internal", "x.erp.internal", Reach::Nowhere);
        check("erp.internal", "erp.internal.evil.example", Reach::Nowhere);
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for list in ["https://a.example", "a.example:443", "a.example,,b.example", "*.example"] {
            assert!(list.parse::<AllowedHosts>().is_err(), "{list}");
        }
    }
}
