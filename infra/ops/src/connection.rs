//! How AWS is reached: an account, or the emulator on this machine.

use anyhow::{Context, Result, anyhow};
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, ProvideCredentials, SharedCredentialsProvider};
use shared::table::DynamoJobTable;

use crate::complaint::{LOG_IN, complaint};
use crate::emulator::{ACCESS_KEY, REGION, SECRET_KEY};

/// Region, credentials and address of all the services.
#[derive(Clone, Debug)]
pub struct Connection {
    config: SdkConfig,
}

impl Connection {
    /// The emulator that answers at `endpoint`, as its root.
    #[must_use]
    pub fn emulator(endpoint: &str) -> Self {
        let root = Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "emulator");
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .credentials_provider(SharedCredentialsProvider::new(root))
            .endpoint_url(endpoint)
            .build();
        Self { config }
    }

    /// An account, as the AWS CLI would reach it: by the profile (or the default
    /// one), the environment, or the machine's role.
    ///
    /// # Errors
    ///
    /// No region is known, or nobody knows who we are there.
    pub async fn account(profile: Option<&str>, region: Option<&str>) -> Result<Self> {
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(profile) = profile {
            loader = loader.profile_name(profile);
        }
        if let Some(region) = region {
            loader = loader.region(Region::new(region.to_owned()));
        }
        let mut config = loader.load().await;
        if let Some(profile) = profile {
            // The environment's credentials would win, and may be another account's.
            let region = ProviderConfig::without_region().with_region(config.region().cloned());
            let provider = ProfileFileCredentialsProvider::builder().configure(&region);
            let provider = SharedCredentialsProvider::new(provider.profile_name(profile).build());
            config = config.into_builder().credentials_provider(provider).build();
        }
        let connection = Self { config };
        connection.region()?;
        connection.credentials().await?;
        Ok(connection)
    }

    /// Where all services answer, if that is not AWS's own address.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.config.endpoint_url()
    }

    /// The address of one service, such as `logs`, without a slash at its end.
    ///
    /// # Errors
    ///
    /// No region is known.
    pub fn address(&self, service: &str) -> Result<String> {
        match self.endpoint() {
            Some(endpoint) => Ok(endpoint.trim_end_matches('/').to_owned()),
            None => Ok(format!("https://{service}.{}.amazonaws.com", self.region()?)),
        }
    }

    /// The region that the stack lies in.
    ///
    /// # Errors
    ///
    /// None is known.
    pub fn region(&self) -> Result<&str> {
        let region = self.config.region().map(AsRef::as_ref);
        region.context("no region is known: name one with --region, or set AWS_REGION")
    }

    /// Who we are, for requests that no SDK signs.
    ///
    /// # Errors
    ///
    /// Nobody knows.
    pub async fn credentials(&self) -> Result<Credentials> {
        let none = |why: &str| anyhow!("there are no usable AWS credentials: {LOG_IN} ({why})");
        let provider = self.config.credentials_provider();
        let provider = provider.ok_or_else(|| none("nobody gives any"))?;
        provider.provide_credentials().await.map_err(|error| {
            let why = complaint(&error.into());
            // What follows is every place that was looked at.
            let why = why.lines().next().unwrap_or_default();
            none(why.trim_end_matches(". Attempted:"))
        })
    }

    /// SQS.
    #[must_use]
    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(&self.config)
    }

    /// The job table `name`, as the functions read and write it.
    #[must_use]
    pub fn job_table(&self, name: &str) -> DynamoJobTable {
        DynamoJobTable::new(&self.config, name)
    }

    /// `DynamoDB`.
    #[must_use]
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.config)
    }
}
