//! Encryption of the control channel, for who wants it: TLS 1.3 by rustls.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    PeerIncompatible, RootCertStore, ServerConfig, ServerConnection, SignatureScheme, StreamOwned,
};

use super::hex::{Hex, NoHex};
use super::line::{Line, Socket, Timed};
use super::message::PROTOCOL;

/// What the two sides know of their connection: RFC 9266 says what it is called.
const BINDING: &[u8] = b"EXPORTER-Channel-Binding";

/// Why there is no encryption.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates or keys.
    #[error("cannot use {}: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A certificate cannot be made, or not be used.
    #[error("cannot set TLS up: {0}")]
    Setup(String),
    /// No certificates of the system.
    #[error(
        "the system has no certificates of authorities ({0}): name a file of them, or the server's fingerprint"
    )]
    NoSystem(String),
    /// The server's certificate has another fingerprint.
    #[error(
        "the certificate of {who} has the fingerprint {theirs}, not {pinned}: it is another server, or was started anew"
    )]
    Fingerprint {
        /// Who.
        who: String,
        /// What was asked for.
        pinned: Fingerprint,
        /// What it has.
        theirs: Fingerprint,
    },
    /// The server's certificate is of nobody we trust.
    #[error(
        "the certificate of {who} is not to be trusted: {why}; name the file of who has signed it, or the server's fingerprint"
    )]
    Untrusted {
        /// Who.
        who: String,
        /// Why.
        why: String,
    },
    /// The greetings did not come to an end.
    #[error("no TLS with {who}: {why}; start both sides with TLS, or neither")]
    Greeting {
        /// Who.
        who: String,
        /// Why.
        why: String,
    },
}

/// The SHA-256 of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(Hex<32>);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let sum = digest(&SHA256, certificate);
        Self(Hex(sum.as_ref().try_into().expect("32 bytes of SHA-256")))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Fingerprint {
    type Err = NoHex;

    /// As 64 digits, with or without "sha256:" before them and colons between them.
    fn from_str(text: &str) -> Result<Self, NoHex> {
        let text = text.trim();
        let digits = text.strip_prefix("sha256:").unwrap_or(text).replace(':', "");
        digits.parse().map(Self)
    }
}

/// What a server shows.
#[derive(Clone, Debug)]
pub enum Identity {
    /// A certificate, with those that lead to an authority, and its key, as PEM files.
    Files {
        /// The certificates.
        certificates: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// One made now, for these names, that only its fingerprint makes trustworthy.
    New(Vec<String>),
}

/// Whom a client trusts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Whom the system trusts.
    System,
    /// The authorities of a PEM file.
    Authorities(PathBuf),
    /// The one server with this certificate.
    Pinned(Fingerprint),
}

/// What a server needs for TLS.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    /// Of its certificate.
    pub fingerprint: Fingerprint,
}

impl ServerTls {
    /// With this identity.
    ///
    /// # Errors
    /// If the files are none of certificates and keys, or do not go together.
    pub fn new(identity: &Identity) -> Result<Self, TlsError> {
        let (certificates, key) = match identity {
            Identity::Files { certificates, key } => {
                let file = |why: &dyn fmt::Display| TlsError::File {
                    path: key.clone(),
                    why: why.to_string(),
                };
                (read(certificates)?, PrivateKeyDer::from_pem_file(key).map_err(|why| file(&why))?)
            }
            Identity::New(names) => {
                let made = rcgen::generate_simple_self_signed(names.clone())
                    .map_err(|why| TlsError::Setup(why.to_string()))?;
                let key = made.signing_key.serialize_der();
                (vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key.into()))
            }
        };
        let setup = |why: Error| TlsError::Setup(why.to_string());
        let fingerprint = Fingerprint::of(&certificates[0]);
        let mut config = ServerConfig::builder_with_provider(crypto())
            .with_safe_default_protocol_versions()
            .and_then(|it| it.with_no_client_auth().with_single_cert(certificates, key))
            .map_err(setup)?;
        config.alpn_protocols = vec![PROTOCOL.into()];
        Ok(Self { config: Arc::new(config), fingerprint })
    }

    /// Greets a client.
    ///
    /// # Errors
    /// If it does not speak TLS.
    pub fn greet<S: Socket + 'static>(
        &self,
        socket: S,
        who: &str,
        until: Instant,
    ) -> Result<Box<dyn Line>, TlsError> {
        let greeting = |why: &dyn fmt::Display| TlsError::Greeting {
            who: who.to_owned(),
            why: why.to_string(),
        };
        let connection =
            ServerConnection::new(self.config.clone()).map_err(|why| greeting(&why))?;
        let mut stream = StreamOwned::new(connection, Timed::new(socket, until));
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(|why| greeting(&why))?;
        }
        Ok(Box::new(stream))
    }
}

/// What a client needs for TLS.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    pinned: Option<Fingerprint>,
}

impl ClientTls {
    /// With this trust.
    ///
    /// # Errors
    /// If there are no certificates.
    pub fn new(trust: &Trust) -> Result<Self, TlsError> {
        let builder = ClientConfig::builder_with_provider(crypto())
            .with_safe_default_protocol_versions()
            .map_err(|why| TlsError::Setup(why.to_string()))?;
        let (mut config, pinned) = match trust {
            Trust::Pinned(print) => {
                let only = Arc::new(Only { pinned: *print, provider: crypto() });
                (
                    builder
                        .dangerous()
                        .with_custom_certificate_verifier(only)
                        .with_no_client_auth(),
                    Some(*print),
                )
            }
            Trust::Authorities(path) => {
                let mut roots = RootCertStore::empty();
                let refuse =
                    |why: Error| TlsError::File { path: path.clone(), why: why.to_string() };
                read(path)?.into_iter().try_for_each(|it| roots.add(it)).map_err(refuse)?;
                (builder.with_root_certificates(roots).with_no_client_auth(), None)
            }
            Trust::System => {
                let found = rustls_native_certs::load_native_certs();
                let mut roots = RootCertStore::empty();
                if roots.add_parsable_certificates(found.certs).0 == 0 {
                    let why = found
                        .errors
                        .first()
                        .map_or_else(|| "none found".to_owned(), ToString::to_string);
                    return Err(TlsError::NoSystem(why));
                }
                (builder.with_root_certificates(roots).with_no_client_auth(), None)
            }
        };
        config.alpn_protocols = vec![PROTOCOL.into()];
        Ok(Self { config: Arc::new(config), pinned })
    }

    /// Greets a server of this name or address.
    ///
    /// # Errors
    /// If it does not speak TLS, or is not to be trusted.
    pub fn greet<S: Socket + 'static>(
        &self,
        socket: S,
        name: &str,
        who: &str,
        until: Instant,
    ) -> Result<Box<dyn Line>, TlsError> {
        let greeting = |why: &dyn fmt::Display| TlsError::Greeting {
            who: who.to_owned(),
            why: why.to_string(),
        };
        let name = ServerName::try_from(name.to_owned()).map_err(|why| greeting(&why))?;
        let connection =
            ClientConnection::new(self.config.clone(), name).map_err(|why| greeting(&why))?;
        let mut stream = StreamOwned::new(connection, Timed::new(socket, until));
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(|why| self.distrust(&why, who))?;
        }
        Ok(Box::new(stream))
    }

    fn distrust(&self, why: &io::Error, who: &str) -> TlsError {
        let who = who.to_owned();
        match why.get_ref().and_then(|why| why.downcast_ref::<Error>()) {
            Some(Error::InvalidCertificate(CertificateError::Other(other))) => {
                match (other.0.downcast_ref::<Unpinned>(), self.pinned) {
                    (Some(Unpinned(theirs)), Some(pinned)) => {
                        TlsError::Fingerprint { who, pinned, theirs: *theirs }
                    }
                    _ => TlsError::Untrusted { who, why: other.to_string() },
                }
            }
            Some(Error::InvalidCertificate(why)) => {
                TlsError::Untrusted { who, why: why.to_string() }
            }
            _ => TlsError::Greeting { who, why: why.to_string() },
        }
    }
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

/// The certificates of a PEM file: one at least.
fn read(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refuse = |why: String| TlsError::File { path: path.clone(), why };
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|why| refuse(why.to_string()))?;
    if all.is_empty() { Err(refuse("no certificate in it".to_owned())) } else { Ok(all) }
}

/// A certificate that is not the one.
#[derive(Debug, thiserror::Error)]
#[error("its fingerprint is {0}")]
struct Unpinned(Fingerprint);

/// Trusts one certificate, whoever has signed it and for whatever name.
#[derive(Debug)]
struct Only {
    pinned: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let theirs = Fingerprint::of(certificate);
        if theirs == self.pinned {
            return Ok(ServerCertVerified::assertion());
        }
        let why = rustls::OtherError(Arc::new(Unpinned(theirs)));
        Err(Error::InvalidCertificate(CertificateError::Other(why)))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls13RequiredForQuic))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

macro_rules! line {
    ($connection:ty) => {
        impl<S: Socket> Line for StreamOwned<$connection, Timed<S>> {
            fn until(&mut self, deadline: Instant) {
                self.sock.until(deadline);
            }

            fn has_news(&mut self) -> bool {
                self.sock.has_news()
            }

            fn binding(&self) -> Option<[u8; 32]> {
                self.conn.export_keying_material([0; 32], BINDING, None).ok()
            }
        }
    };
}

line!(ClientConnection);
line!(ServerConnection);
