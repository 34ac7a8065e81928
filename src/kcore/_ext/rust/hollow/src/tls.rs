//! The TLS settings of all connections of a loop, and the check of a controller's certificate.

use std::sync::Arc;

use pkcs8::der::pem::PemLabel;
use pkcs8::der::Decode;
use pkcs8::{EncryptedPrivateKeyInfo, SecretDocument};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_name, Resumption, WebPkiServerVerifier};
use rustls::crypto::{ring, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

const VERSIONS: [(&str, &SupportedProtocolVersion); 2] =
    [("TLSv1.2", &rustls::version::TLS12), ("TLSv1.3", &rustls::version::TLS13)];

/// The TLS settings of a loop's connections, from PEM. Every connection has a whole handshake, as those of real brokers.
#[pyclass(frozen)]
pub struct ClientTls {
    pub config: Arc<ClientConfig>,
}

#[pymethods]
impl ClientTls {
    #[new]
    #[pyo3(signature = (*, trusted, chain, key, key_password, versions, verifies_name))]
    fn new(
        trusted: &[u8],
        chain: &[u8],
        key: &[u8],
        key_password: Option<&[u8]>,
        versions: Vec<String>,
        verifies_name: bool,
    ) -> PyResult<Self> {
        let config = config_of(trusted, chain, key, key_password, &versions, verifies_name);
        config.map(|config| Self { config: Arc::new(config) }).map_err(PyValueError::new_err)
    }
}

fn config_of(
    trusted: &[u8],
    chain: &[u8],
    key: &[u8],
    key_password: Option<&[u8]>,
    versions: &[String],
    verifies_name: bool,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let wanted: Vec<_> =
        VERSIONS.iter().filter(|(name, _)| versions.iter().any(|each| each == name)).map(|(_, each)| *each).collect();
    let verifier = Verifier::new(certificates(trusted)?, &provider, verifies_name)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&wanted)
        .map_err(text_of)?
        .dangerous() // The name of the method: `Verifier` checks what Kafka's clients check.
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = if key.is_empty() {
        builder.with_no_client_auth()
    } else {
        builder.with_client_auth_cert(certificates(chain)?, key_of(key, key_password)?).map_err(text_of)?
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn text_of(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| format!("certificate: {error}"))
}

/// The private key in the PEM; a PKCS #8 key may be encrypted.
fn key_of(pem: &[u8], password: Option<&[u8]>) -> Result<PrivateKeyDer<'static>, String> {
    let text = std::str::from_utf8(pem).map_err(|error| format!("key: {error}"))?;
    let (label, document) = SecretDocument::from_pem(text).map_err(|error| format!("key: {error}"))?;
    if label != EncryptedPrivateKeyInfo::PEM_LABEL {
        return PrivateKeyDer::from_pem_slice(pem).map_err(|error| format!("key: {error}"));
    }
    let encrypted = EncryptedPrivateKeyInfo::from_der(document.as_bytes()).map_err(|error| format!("key: {error}"))?;
    let key = encrypted.decrypt(password.unwrap_or_default()).map_err(|_| {
        "key: ssl.key.password is wrong, or the encryption is not PBES2 with AES: `openssl pkcs8 -topk8 -v2 aes256 \
         -in OLD -out NEW` encrypts the key so"
    })?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// Checks a controller's certificate as Java does: by the trusted authorities, or because it is itself trusted.
#[derive(Debug)]
struct Verifier {
    authorities: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
    verifies_name: bool, // ssl.endpoint.identification.algorithm is https.
}

impl Verifier {
    fn new(
        trusted: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
        verifies_name: bool,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| format!("trusted certificates: {error}"))?;
        Ok(Self { authorities, trusted, verifies_name })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match found {
            // These come last, after the check of the chain and of its dates.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.verifies_name => Ok(ServerCertVerified::assertion()),
            // A self-signed certificate of an authority is refused as a server's, after the check of its dates.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.trusted.iter().any(|each| each == end_entity) =>
            {
                if self.verifies_name {
                    verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            found => found,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}
