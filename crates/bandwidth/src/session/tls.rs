//! TLS 1.3 by rustls, with raw public keys (RFC 7250): each side trusts one key of the other, which
//! both have derived from their token, or which was given to the client. There are no certificates.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, Connection, DigitallySignedStruct, DistinguishedName, Error,
    PeerIncompatible, ServerConfig, SignatureScheme,
};

use super::message::VERSION;
use super::token::{Fingerprint, Key};
use super::transport::{Socket, Transport};

/// The protocol and version, by which each side recognizes another version (ALPN, RFC 7301).
#[must_use]
pub fn protocol() -> Vec<u8> {
    format!("eigentime-bandwidth/{VERSION}").into_bytes()
}

/// The configuration of a server with this key, for clients with that one.
#[must_use]
pub fn server(ours: &Key, client: Fingerprint) -> Arc<ServerConfig> {
    let keys = Arc::new(AlwaysResolvesServerRawPublicKeys::new(ours.0.clone()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("ring has all of TLS 1.3")
        .with_client_cert_verifier(Arc::new(OnlyKey::new(client)))
        .with_cert_resolver(keys);
    config.alpn_protocols = vec![protocol()];
    // Each session authenticates again.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Arc::new(config)
}

/// The configuration of a client with this key, for the server with that one.
#[must_use]
pub fn client(ours: &Key, server: Fingerprint) -> Arc<ClientConfig> {
    let keys = Arc::new(AlwaysResolvesClientRawPublicKeys::new(ours.0.clone()));
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("ring has all of TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(OnlyKey::new(server)))
        .with_client_cert_resolver(keys);
    config.alpn_protocols = vec![protocol()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Arc::new(config)
}

/// Trusts one key, wherever it is used.
#[derive(Debug)]
struct OnlyKey {
    fingerprint: Fingerprint,
    algorithms: WebPkiSupportedAlgorithms,
}

impl OnlyKey {
    fn new(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, algorithms: default_provider().signature_verification_algorithms }
    }

    fn check(&self, key: &CertificateDer<'_>) -> Result<(), Error> {
        if Fingerprint::of(key) == self.fingerprint {
            Ok(())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }
}

/// The signature checks common to both verifiers.
macro_rules! signatures_by_raw_keys {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _key: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for OnlyKey {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(key).map(|()| ServerCertVerified::assertion())
    }

    signatures_by_raw_keys!();
}

impl ClientCertVerifier for OnlyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(key).map(|()| ClientCertVerified::assertion())
    }

    signatures_by_raw_keys!();
}

/// A TLS connection over a socket with a deadline.
pub struct Tls {
    /// Its state.
    pub connection: Connection,
    /// Its socket.
    pub socket: Socket,
}

impl Read for Tls {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(into) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    self.connection.complete_io(&mut self.socket)?;
                }
                read => return read,
            }
        }
    }
}

impl Write for Tls {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let written = self.connection.writer().write(from)?;
        self.flush()?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl Transport for Tls {
    fn set_deadline(&mut self, deadline: Instant) {
        self.socket.set_deadline(deadline);
    }

    fn has_input(&mut self) -> bool {
        let decrypted = self.connection.process_new_packets();
        decrypted.map_or(true, |it| it.plaintext_bytes_to_read() > 0) || self.socket.has_input()
    }
}
