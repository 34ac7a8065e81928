//! Certificates that a run makes for itself: an authority, a server's and a client's certificate.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, IsCa, Issuer, KeyPair};

/// The PEM of a certificate and its key.
type Signed = (String, String);

/// A new authority's certificate, and a certificate and a key for each of `names`, as PEM. The keys are ECDSA P-256.
///
/// A name is the subject's CN; `hosts` are the alternative names of all certificates.
#[pyfunction]
pub fn make_certificates(
    py: Python<'_>,
    authority: String,
    names: Vec<String>,
    hosts: Vec<String>,
) -> PyResult<(String, Vec<Signed>)> {
    py.detach(|| made(authority, names, hosts)).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn made(authority: String, names: Vec<String>, hosts: Vec<String>) -> Result<(String, Vec<Signed>), Error> {
    let mut parameters = of(authority, vec![])?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    let trusted = parameters.self_signed(&key)?.pem();
    let issuer = Issuer::new(parameters, key);
    let mut signed = vec![];
    for name in names {
        let key = KeyPair::generate()?;
        let mut parameters = of(name, hosts.clone())?;
        parameters.use_authority_key_identifier_extension = true;
        signed.push((parameters.signed_by(&key, &issuer)?.pem(), key.serialize_pem()));
    }
    Ok((trusted, signed))
}

fn of(name: String, hosts: Vec<String>) -> Result<CertificateParams, Error> {
    let mut parameters = CertificateParams::new(hosts)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    Ok(parameters)
}
