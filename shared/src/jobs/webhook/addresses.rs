//! Which addresses are public.
//!
//! Of IPv4 everything is, but what the IANA registry of special-purpose
//! addresses names. Of IPv6 only global unicast is (`2000::/3`), again without
//! what the registry names; so addresses that hold an IPv4 address of any kind
//! (mapped, compatible, NAT64, 6to4, Teredo) never are, or count as that one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8),         // "this network"; connects to loopback
    (Ipv4Addr::new(10, 0, 0, 0), 8),    // private
    (Ipv4Addr::new(100, 64, 0, 0), 10), // carrier-grade NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),   // loopback; on Lambda, the runtime API
    (Ipv4Addr::new(169, 254, 0, 0), 16), // link-local; instance metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12), // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),  // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),  // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24), // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16), // private
    (Ipv4Addr::new(198, 18, 0, 0), 15), // benchmarking
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24), // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),   // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),   // reserved, and broadcast
];

const GLOBAL_UNICAST: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocols, Teredo among them
    (Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Whether anybody on the internet could connect to `address` as well.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let is_within = |(network, prefix): (Ipv4Addr, u32)| {
                (address.to_bits() ^ network.to_bits()).leading_zeros() >= prefix
            };
            !SPECIAL_V4.into_iter().any(is_within)
        }
        IpAddr::V6(address) => {
            let is_within = |(network, prefix): (Ipv6Addr, u32)| {
                (address.to_bits() ^ network.to_bits()).leading_zeros() >= prefix
            };
            is_within(GLOBAL_UNICAST) && !SPECIAL_V6.into_iter().any(is_within)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(addresses: &[&str], expected: bool) {
        for address in addresses {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn the_internet_is_public() {
        check(
            &[
                "1.1.1.1",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "169.253.255.255",
                "169.255.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "192.0.1.0",
                "192.167.255.255",
                "192.169.0.0",
                "198.17.255.255",
                "198.20.0.0",
                "223.255.255.255",
                "::ffff:1.1.1.1",
                "2001:200::1",
                "2001:4860:4860::8888",
                "2606:4700:4700::1111",
                "2a00::1",
            ],
            true,
        );
    }

    #[test]
    fn everything_else_is_not() {
        check(
            &[
                "0.0.0.0",
                "0.1.2.3",
                "10.0.0.0",
                "10.255.255.255",
                "100.64.0.0",
                "100.100.100.200",
                "100.127.255.255",
                "127.0.0.1",
                "127.255.255.255",
                "169.254.0.0",
                "169.254.169.254",
                "169.254.170.2",
                "172.16.0.0",
                "172.31.255.255",
                "192.0.0.1",
                "192.0.0.192",
                "192.0.2.1",
                "192.88.99.1",
                "192.168.0.1",
                "198.18.0.1",
                "198.19.255.255",
                "198.51.100.1",
                "203.0.113.1",
                "224.0.0.1",
                "239.255.255.255",
                "240.0.0.1",
                "255.255.255.255",
            ],
            false,
        );
    }

    #[test]
    fn nothing_hides_in_ipv6() {
        check(
            &[
                "::",
                "::1",
                "::ffff:127.0.0.1",
                "::ffff:169.254.169.254",
                "::ffff:0a00:0001",
                "::127.0.0.1",
                "::a9fe:a9fe",
                "64:ff9b::127.0.0.1",
                "64:ff9b::1.1.1.1",
                "64:ff9b:1::1",
                "100::1",
                "2001::1",
                "2001:0:7f00:1::",
                "2001:2::1",
                "2001:10::1",
                "2001:1ff:ffff::",
                "2001:db8::1",
                "2002:7f00:1::",
                "2002:a9fe:a9fe::1",
                "3fff::1",
                "4000::1",
                "5f00::1",
                "fc00::1",
                "fd00:ec2::254",
                "fe80::1",
                "febf::1",
                "fec0::1",
                "ff02::1",
            ],
            false,
        );
    }
}
