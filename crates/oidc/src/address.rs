//! Which addresses a provider may have: an issuer is chosen by a tenant, and must not reach what only this machine
//! and its network can (S45).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether anybody on the internet could reach this address.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation();
    let shared = a == 100 && (64..128).contains(&b);
    let protocol = (a, b, c) == (192, 0, 0);
    let benchmark = a == 198 && (b == 18 || b == 19);
    !(special || shared || protocol || benchmark || a == 0 || a >= 240)
}

/// Only global unicast, and nothing that carries an IPv4 address with it.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let teredo = a == 0x2001 && b == 0;
    let documentation = a == 0x2001 && b == 0x0db8;
    let six_to_four = a == 0x2002;
    (a & 0xe000) == 0x2000 && !(teredo || documentation || six_to_four)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S45: every spelling of an address inside.
    #[test]
    fn s45_no_internal_address_is_public() {
        for inside in [
            "127.0.0.1",
            "127.255.0.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
            "2001:0:1::1",
            "2002:7f00:1::",
            "2001:db8::1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450::1"] {
            assert!(is_public(outside.parse().unwrap()), "{outside}");
        }
    }
}
