//! What a URL must be, wherever it leads.

use url::Url;

/// What clients and proxies of all kinds take; the limit that Internet Explorer
/// once made a convention.
pub(super) const MAX_URL_CHARS: usize = 2_083;

/// Reads a URL into the one form in which it is checked, signed for and sent.
pub(super) fn parse(text: &str) -> Result<Url, String> {
    // The parser would take these out, or make something else of them, and so
    // would others, differently.
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("must not have white space, control characters or backslashes".to_owned());
    }
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let rest = rest.ok_or("must begin with https:// or http://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err("must name a host".to_owned());
    }
    if authority.contains('@') {
        return Err("must not have a user name or password; use a header".to_owned());
    }
    let url = Url::parse(text).map_err(|error| format!("is no absolute URL: {error}"))?;
    let too_long = format!("must have at most {MAX_URL_CHARS} characters, escapes included");
    if text.chars().count().max(url.as_str().len()) > MAX_URL_CHARS {
        return Err(too_long);
    }
    if url.port() == Some(0) {
        return Err("must not have port 0".to_owned());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_absolute_and_of_the_web() {
        for (text, read) in [
            ("https://partner.example", "https://partner.example/"),
            ("https://Partner.Example:443/a?b=@c", "https://partner.example/a?b=@c"),
            ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080/x"),
            ("https://b\u{fc}cher.example/\u{e9}", "https://xn--bcher-kva.example/%C3%A9"),
            ("https://[2001:4860:4860::8888]/", "https://[2001:4860:4860::8888]/"),
        ] {
            assert_eq!(parse(text).map(String::from).as_deref(), Ok(read));
        }
        for text in [
            "",
            "partner.example",
            "//partner.example",
            "/in",
            "https://",
            "ftp://partner.example",
            "file:///etc/passwd",
            "gopher://127.0.0.1:6379/_INFO",
            "data:text/plain,x",
            "javascript:alert(1)",
            "https://user@partner.example",
            "https://user:secret@partner.example",
            "https://:secret@partner.example",
            "https://@partner.example",
            "https://partner.example\\@evil.example",
            "https:\\\\partner.example",
            "https:partner.example",
            "https:///partner.example",
            "https:///user:secret@partner.example",
            "HTTPS://partner.example",
            "https://partner.example:0/",
            "https://partner.example:65536/",
            "https://part ner.example",
            "https://partner.example/a b",
            "https://partner.example/\r\nx-injected:1",
            "https://par\ttner.example",
            " https://partner.example",
            "https://partner.example\u{a0}",
            "https://[::1",
            "https://1.2.3.4.5",
            "https://256.256.256.256",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_count_escapes() {
        let path = |chars| format!("https://a.example/{}", "x".repeat(chars));
        let rest = MAX_URL_CHARS - path(0).len();
        assert!(parse(&path(rest)).is_ok());
        assert!(parse(&path(rest + 1)).is_err());
        assert!(parse(&format!("https://a.example/{}", "\u{e9}".repeat(400))).is_err());
    }

    /// All of these are one address, and whoever checks must see that.
    #[test]
    fn hidden_addresses_are_read_as_addresses() {
        for text in [
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://127.0.0.1./",
            "http://127\u{ff0e}0\u{ff0e}0\u{ff0e}1/",
            "http://127\u{3002}0\u{3002}0\u{3002}1/",
            "http://\u{2460}\u{2461}\u{2466}.1/",
            "http://%31%32%37.0.0.1/",
        ] {
            match parse(text) {
                Ok(url) => assert!(
                    matches!(url.host(), Some(url::Host::Ipv4(address)) if address.is_loopback()),
                    "{text} is read as {url}"
                ),
                // The circled digits are 1, 2, 7 and so 127.1 as well, or no host.
                Err(detail) => assert!(text.contains('\u{2460}'), "{text} {detail}"),
            }
        }
    }
}
