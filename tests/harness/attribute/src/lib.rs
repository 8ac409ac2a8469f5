//! The attribute `#[test]` of `eigentime-harness`, which has to be in a crate of its own.

use proc_macro::{TokenStream, TokenTree};

/// Registers a function without arguments as a test, under the name that Rust's harness would give
/// it. It heeds `#[ignore]` where that follows it.
#[proc_macro_attribute]
pub fn test(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut function = Vec::new();
    let (mut ignored, mut name) = (false, None);
    let mut tokens = item.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if is_punctuation(&token, '#')
            && tokens.next_if(|next| next.to_string().starts_with("[ignore")).is_some()
        {
            ignored = true;
            continue;
        }
        if name.is_none() && token.to_string() == "fn" {
            name = tokens.peek().map(ToString::to_string);
        }
        function.push(token);
    }
    let name = name.expect("#[test] stands at a function");
    let registration = format!(
        "const _: () = {{ ::eigentime_harness::inventory::submit! {{
            ::eigentime_harness::Test::new(::core::concat!(::core::module_path!(), \"::{name}\"), {ignored}, {name})
        }} }};"
    );
    let registration: TokenStream = registration.parse().expect("it is Rust");
    function.into_iter().chain(registration).collect()
}

fn is_punctuation(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(it) if it.as_char() == sign)
}
