//! A function's role, whose policies can be taken apart to see what notices.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::stack::Stack;

/// The role that a function of a stack runs as.
#[derive(Clone, Debug)]
pub struct Role<'a> {
    /// The role's ARN.
    pub arn: String,
    /// The role's name.
    pub name: String,
    stack: &'a Stack,
}

impl<'a> Role<'a> {
    /// Looks up the role of a function.
    ///
    /// # Errors
    ///
    /// There is no such function.
    pub async fn of(stack: &'a Stack, function: &str) -> Result<Self> {
        let arguments = ["lambda", "get-function-configuration", "--function-name", function];
        let configuration = stack.aws.json(&arguments).await?;
        let arn = configuration.get("Role").and_then(Value::as_str);
        let arn = arn.with_context(|| format!("{function} has no role"))?.to_owned();
        let name = arn.rsplit('/').next().unwrap_or(&arn).to_owned();
        Ok(Self { arn, name, stack })
    }

    /// Each policy of the role with each of its actions.
    ///
    /// # Errors
    ///
    /// They could not be read.
    pub async fn actions(&self) -> Result<Vec<(String, String)>> {
        let arguments = ["iam", "list-role-policies", "--role-name", &self.name];
        let listed = self.stack.aws.json(&arguments).await?;
        let mut all = Vec::new();
        for policy in listed.get("PolicyNames").and_then(Value::as_array).into_iter().flatten() {
            let policy = policy.as_str().unwrap_or_default();
            let document = self.policy(policy).await?;
            let actions = match document.pointer(ACTION) {
                Some(Value::Array(many)) => many.clone(),
                Some(one) => vec![one.clone()],
                None => Vec::new(),
            };
            let actions = actions.iter().filter_map(Value::as_str);
            all.extend(actions.map(|action| (policy.to_owned(), action.to_owned())));
        }
        Ok(all)
    }

    /// Takes `action` out of a policy, and returns the policy as it was.
    ///
    /// # Errors
    ///
    /// The action is not in the policy, or the policy could not be changed.
    pub async fn without(&self, policy: &str, action: &str) -> Result<Value> {
        let whole = self.policy(policy).await?;
        let mut less = whole.clone();
        match less.pointer_mut(ACTION) {
            Some(Value::Array(all)) => all.retain(|one| one != action),
            // A statement must name an action; this one is never called.
            Some(one) => *one = json!("sqs:ListQueues"),
            None => {}
        }
        ensure!(less != whole, "{action} is not in the policy {policy}");
        self.restore(policy, &less).await?;
        Ok(whole)
    }

    /// Puts a policy in place.
    ///
    /// # Errors
    ///
    /// It was refused.
    pub async fn restore(&self, policy: &str, document: &Value) -> Result<()> {
        let document = document.to_string();
        let mut arguments = vec!["iam", "put-role-policy", "--role-name", &self.name];
        arguments.extend(["--policy-name", policy, "--policy-document", &document]);
        self.stack.aws.call(&arguments).await
    }

    async fn policy(&self, policy: &str) -> Result<Value> {
        let mut arguments = vec!["iam", "get-role-policy", "--role-name", &self.name];
        arguments.extend(["--policy-name", policy]);
        let answer = self.stack.aws.json(&arguments).await?;
        answer.get("PolicyDocument").cloned().with_context(|| format!("there is no {policy}"))
    }
}

/// Every policy of the template has one statement.
const ACTION: &str = "/Statement/0/Action";
