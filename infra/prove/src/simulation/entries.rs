//! The job entries of a world: in memory, or in a DynamoDB that is part of
//! this process and is spoken to by the real adapter.

use aws_sdk_dynamodb::config::{
    Credentials, HttpClient, Region, RuntimeComponents, SharedCredentialsProvider, SharedHttpClient,
};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use aws_types::SdkConfig;
use dynoxide::Database;
use dynoxide::errors::DynoxideError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use shared::table::{
    Cancellation, DynamoJobTable, GroupError, GroupTable, GroupWrite, InMemoryJobTable, PutIf,
    Settlement, TableError, Written,
};
use shared::{JobEntry, JobId, JobTable, Principal, State, Timestamp};
use uuid::Uuid;

/// Where entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TableKind {
    /// In a map: fast.
    Memory,
    /// In a DynamoDB engine, by the real adapter and its real expressions.
    Dynamodb,
}

impl TableKind {
    /// As the command line calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Dynamodb => "dynamodb",
        }
    }
}

#[derive(Debug)]
pub(crate) enum Entries {
    Memory(InMemoryJobTable),
    DynamoDb(DynamoJobTable),
}

impl Entries {
    pub(crate) fn new(kind: TableKind) -> anyhow::Result<Self> {
        Ok(match kind {
            TableKind::Memory => Self::Memory(InMemoryJobTable::default()),
            TableKind::Dynamodb => Self::DynamoDb(dynamodb()?),
        })
    }

    /// Sets a job that is held back to `queued`, as a person's tool does.
    pub(crate) fn unhold(&self, id: JobId) {
        let Self::Memory(table) = self else { return };
        if let Some(held) = table.entry(id).filter(|entry| entry.state == State::Held) {
            table.insert(JobEntry { state: State::Queued, ..held });
        }
    }
}

impl JobTable for Entries {
    async fn get(&self, id: JobId) -> Result<Option<JobEntry>, TableError> {
        match self {
            Self::Memory(table) => table.get(id).await,
            Self::DynamoDb(table) => table.get(id).await,
        }
    }

    async fn put(
        &self,
        entry: &JobEntry,
        condition: &PutIf,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        match self {
            Self::Memory(table) => table.put(entry, condition, now).await,
            Self::DynamoDb(table) => table.put(entry, condition, now).await,
        }
    }

    async fn settle(
        &self,
        id: JobId,
        token: Uuid,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        match self {
            Self::Memory(table) => table.settle(id, token, settlement, now).await,
            Self::DynamoDb(table) => table.settle(id, token, settlement, now).await,
        }
    }

    async fn cancel(
        &self,
        id: JobId,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<Cancellation, TableError> {
        match self {
            Self::Memory(table) => table.cancel(id, principal, now).await,
            Self::DynamoDb(table) => table.cancel(id, principal, now).await,
        }
    }
}

impl GroupTable for Entries {
    async fn write_group(&self, writes: &[GroupWrite]) -> Result<Vec<bool>, GroupError> {
        match self {
            Self::Memory(table) => table.write_group(writes).await,
            Self::DynamoDb(table) => table.write_group(writes).await,
        }
    }
}

fn dynamodb() -> anyhow::Result<DynamoJobTable> {
    let database = Database::memory()?;
    let table = json!({
        "TableName": "jobs",
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{ "AttributeName": "job_id", "KeyType": "HASH" }],
        "AttributeDefinitions": [{ "AttributeName": "job_id", "AttributeType": "S" }],
    });
    database.create_table(serde_json::from_value(table)?)?;
    let config = SdkConfig::builder()
        .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
        .http_client(SharedHttpClient::new(InProcess(database)))
        .build();
    Ok(DynamoJobTable::new(&config, "jobs"))
}

/// Answers the SDK's requests in this process, at once: sockets know nothing
/// of a world's time.
#[derive(Clone)]
struct InProcess(Database);

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InProcess")
    }
}

impl HttpClient for InProcess {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for InProcess {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::ready(self.answer(&request))
    }
}

impl InProcess {
    fn answer(&self, request: &HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default();
        let body = request.body().bytes().unwrap_or_default();
        let database = &self.0;
        let answer = match operation {
            "GetItem" => respond(body, |request| database.get_item(request)),
            "PutItem" => respond(body, |request| database.put_item(request)),
            "UpdateItem" => respond(body, |request| database.update_item(request)),
            "BatchExecuteStatement" => {
                respond(body, |request| database.batch_execute_statement(request))
            }
            other => return Err(ConnectorError::user(format!("no operation {other}").into())),
        };
        let (status, text) = match answer {
            Ok(text) => (200, text),
            Err(error) => (error.status_code(), error.to_json()),
        };
        let status =
            StatusCode::try_from(status).map_err(|error| ConnectorError::user(error.into()))?;
        Ok(HttpResponse::new(status, SdkBody::from(text)))
    }
}

fn respond<Q: DeserializeOwned, A: Serialize>(
    body: &[u8],
    call: impl FnOnce(Q) -> Result<A, DynoxideError>,
) -> Result<String, DynoxideError> {
    let unreadable =
        |error: serde_json::Error| DynoxideError::SerializationException(error.to_string());
    let answer = call(serde_json::from_slice(body).map_err(unreadable)?)?;
    serde_json::to_string(&answer).map_err(unreadable)
}
