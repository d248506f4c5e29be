//! The site of a request's call. Most clients talk to one origin, with one or two methods, so a layer remembers the last one.

use std::sync::Arc;

use http::uri::{Authority, Scheme};
use http::{Method, Request};

use super::HttpLayer;
use crate::policy::Site;

/// The site of the last request's call.
pub(super) struct Last {
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    method: Method,
    settings: u32,
    site: Arc<Site>,
}

impl Last {
    /// Whether this request's call belongs to the same site.
    fn fits<B>(&self, request: &Request<B>, settings: u32, stream: bool) -> bool {
        let uri = request.uri();
        self.method == *request.method()
            && same(self.authority.as_ref(), uri.authority())
            && self.scheme.as_ref() == uri.scheme()
            && self.settings == settings
            && self.site.request.stream == stream
    }
}

/// Whether two authorities are equal. Most are to the letter, which is faster to see than equality without regard to case.
fn same(one: Option<&Authority>, other: Option<&Authority>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.as_str() == other.as_str() || one == other,
        (one, other) => one == other,
    }
}

impl<R, C> HttpLayer<R, C> {
    /// Finds the site of a request's call, and gives the request its idempotency key if it needs one.
    pub(super) fn site<B>(&self, request: &mut Request<B>) -> Arc<Site> {
        let settings = self.caller.site.policy.settings();
        // An idempotency key belongs to one request, so such a site is not remembered.
        let plain = !self.says.keyed(request.headers());
        let stream = self.says.streams(&self.caller.site, request.headers());
        if plain
            && let Some(last) = self.last.try_lock()
            && let Some(last) = last.as_ref().filter(|last| last.fits(request, settings, stream))
        {
            return Arc::clone(&last.site);
        }
        let method = request.method().clone();
        let mut site = self.says.site(&self.caller.site, &method, request.headers_mut());
        if let (false, Some(authority)) = (self.caller.has_route(), request.uri().authority()) {
            let scheme = request.uri().scheme_str().unwrap_or("http");
            site.aim(format!("{scheme}://{authority}").into());
        }
        let site = Arc::new(site);
        if plain && let Some(mut last) = self.last.try_lock() {
            let (scheme, authority) = (request.uri().scheme().cloned(), request.uri().authority().cloned());
            *last = Some(Last { scheme, authority, method, settings, site: Arc::clone(&site) });
        }
        site
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Preset, Retry};
    use crate::{Engine, Policy};

    fn request(method: Method, uri: &str) -> Request<()> {
        let uri = uri.parse().unwrap();
        let (mut parts, ()) = Request::new(()).into_parts();
        (parts.method, parts.uri) = (method, uri);
        Request::from_parts(parts, ())
    }

    /// R6: a request like the last one needs no formatting and no allocation, and any other request gets its own site.
    #[test]
    fn a_request_like_the_last_one_is_made_at_the_same_place() {
        let engine = Engine::new(1);
        let policy = Policy::builder("shop").engine(&engine).preset(Preset::Http).build().unwrap();
        let layer = policy.http_layer();
        let site = |method, uri| layer.site(&mut request(method, uri));
        let first = site(Method::GET, "http://shop.example/orders/7");
        assert_eq!((&*first.key, first.request.idempotent), ("http://shop.example", true));
        assert!(Arc::ptr_eq(&first, &site(Method::GET, "http://shop.example/orders/8")));
        // Clones of the layer share the remembered site.
        assert!(Arc::ptr_eq(&first, &layer.clone().site(&mut request(Method::GET, "http://SHOP.example/"))));
        for (method, uri, key, idempotent) in [
            (Method::POST, "http://shop.example/", "http://shop.example", false),
            (Method::GET, "https://shop.example/", "https://shop.example", true),
            (Method::GET, "https://shop.example:8443/", "https://shop.example:8443", true),
        ] {
            let other = site(method, uri);
            assert_eq!((&*other.key, other.request.idempotent), (key, idempotent));
        }
        // A request with an idempotency key is not remembered.
        let mut keyed = request(Method::POST, "http://shop.example/");
        keyed.headers_mut().insert("idempotency-key", http::HeaderValue::from_static("7"));
        assert!(layer.site(&mut keyed).request.idempotent);
        assert!(!site(Method::POST, "http://shop.example/").request.idempotent);
        // Other settings and other methods give other sites; a layer with other options remembers its own.
        let retuned = Policy::builder("shop").preset(Preset::Http).retry(Retry::new().methods(["POST"]));
        policy.retune(retuned.settings().unwrap()).unwrap();
        assert!(site(Method::POST, "http://shop.example/").request.idempotent);
        let never = layer.clone().idempotent(false);
        assert!(!never.site(&mut request(Method::POST, "http://shop.example/")).request.idempotent);
        assert!(site(Method::POST, "http://shop.example/").request.idempotent);
    }

    #[test]
    fn a_route_that_a_caller_names_holds_whatever_its_name() {
        let engine = Engine::new(1);
        let policy = Policy::builder("shop").engine(&engine).preset(Preset::Http).build().unwrap();
        let key = |layer: HttpLayer| {
            let site = layer.site(&mut request(Method::GET, "http://shop.example/"));
            site.key.to_string()
        };
        assert_eq!(key(policy.caller().route("default").http_layer()), "default");
        assert_eq!(key(policy.http_layer()), "http://shop.example");
    }
}
