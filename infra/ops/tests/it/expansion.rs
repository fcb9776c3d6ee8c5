//! The template as CloudFormation sees it: after the SAM transform, with
//! parameters, conditions and mappings put in.
//!
//! The transform is AWS's own, from `.venv`; it needs no account and no network.

use std::sync::LazyLock;

use ops::process;
use ops::progress::Progress;
use ops::tools::Tools;
use ops::workspace::Workspace;
use serde_json::{Map, Value, json};

/// What a deployment would upload has no address here.
const TRANSFORM: &str = r#"
import json, sys
from types import SimpleNamespace
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse
template = yaml_parse(open(sys.argv[1]).read())
for resource in template["Resources"].values():
    if resource["Type"] == "AWS::Serverless::Function":
        resource["Properties"]["CodeUri"] = "s3://bucket/key"
print(json.dumps(transform(template, json.loads(sys.argv[2]), SimpleNamespace(load=dict))))
"#;

/// A template as it is written.
const READ: &str = r"
import json, sys
from samtranslator.yaml_helper import yaml_parse
print(json.dumps(yaml_parse(open(sys.argv[1]).read())))
";

/// The expressions of `AllowedPattern`, which have to cover all of a value.
const MATCH: &str = r"
import json, re, sys
pairs = json.loads(sys.argv[1])
print(json.dumps([re.fullmatch(pattern, value) is not None for pattern, value in pairs]))
";

static TEMPLATE: LazyLock<Value> = LazyLock::new(|| transform(&[]));

/// `infra/template.yaml` after the transform, at default parameters.
pub(crate) fn template() -> Value {
    TEMPLATE.clone()
}

/// The same with other parameters, for the few that the transform itself reads.
pub(crate) fn transform(parameters: &[(&str, &str)]) -> Value {
    let values: Map<_, _> =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let template = Workspace::here().template();
    python(TRANSFORM, &[&template.to_string_lossy(), &Value::Object(values).to_string()])
}

/// A template of this folder as it is written.
pub(crate) fn read(name: &str) -> Value {
    python(READ, &[&Workspace::here().path("infra").join(name).to_string_lossy()])
}

/// Of each pair of an `AllowedPattern` and a value, whether it says all of the value.
pub(crate) fn matches(pairs: &[(&str, &str)]) -> Vec<bool> {
    serde_json::from_value(python(MATCH, &[&json!(pairs).to_string()])).unwrap()
}

/// What a script from `.venv` answers, as JSON.
fn python(script: &str, arguments: &[&str]) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tools = Tools::prepare(&Workspace::here(), Progress::Lines).await.unwrap();
        let mut python = tools.command("python");
        python.env("AWS_DEFAULT_REGION", "us-east-1").args(["-c", script]).args(arguments);
        let finished = process::run(python, |_| ()).await.unwrap();
        assert!(finished.status.success(), "{}", finished.output());
        serde_json::from_str(&finished.stdout.join("\n")).unwrap()
    })
}

/// A template with parameters put in.
pub(crate) struct Expansion {
    template: Value,
    parameters: Map<String, Value>,
}

impl Expansion {
    /// Puts parameters into a transformed template.
    pub(crate) fn new(template: &Value, parameters: &[(&str, &str)]) -> Self {
        let mut all: Map<String, Value> = json!({
            "AWS::StackName": "relevo", "AWS::AccountId": "123456789012", "AWS::Partition": "aws",
            "AWS::Region": "us-east-1", "AWS::URLSuffix": "amazonaws.com",
        })
        .as_object()
        .unwrap()
        .clone();
        for (name, parameter) in template["Parameters"].as_object().unwrap() {
            if let Some(default) = parameter.get("Default") {
                all.insert(name.clone(), json!(text(default)));
            }
        }
        for (name, value) in parameters {
            assert!(all.contains_key(*name), "there is no parameter {name}");
            all.insert((*name).to_owned(), json!(value));
        }
        Self { template: template.clone(), parameters: all }
    }

    /// A parameter's value.
    pub(crate) fn parameter(&self, name: &str) -> String {
        text(&self.parameters[name])
    }

    /// A resource that exists with these parameters; else `null`.
    pub(crate) fn resource(&self, id: &str) -> Value {
        let resource = &self.template["Resources"][id];
        match resource["Condition"].as_str() {
            Some(condition) if !self.holds(&json!({ "Condition": condition })) => Value::Null,
            _ => self.resolve(resource),
        }
    }

    /// The properties of a resource.
    pub(crate) fn properties(&self, id: &str) -> Value {
        self.resource(id)["Properties"].clone()
    }

    /// All resources of a type that exist with these parameters, by id.
    pub(crate) fn all(&self, kind: &str) -> Vec<(String, Value)> {
        let resources = self.template["Resources"].as_object().unwrap();
        let ids = resources.iter().filter(|(_, resource)| resource["Type"] == kind);
        let all = ids.map(|(id, _)| (id.clone(), self.resource(id)));
        all.filter(|(_, resource)| !resource.is_null()).collect()
    }

    /// What CloudFormation's rules have against these parameters.
    pub(crate) fn refusals(&self) -> Vec<String> {
        let rules = self.template["Rules"].as_object().unwrap().values();
        let rules = rules
            .filter(|rule| rule.get("RuleCondition").is_none_or(|condition| self.holds(condition)));
        let assertions = rules.flat_map(|rule| rule["Assertions"].as_array().unwrap());
        let broken = assertions.filter(|assertion| !self.holds(&assertion["Assert"]));
        broken.map(|assertion| text(&assertion["AssertDescription"])).collect()
    }

    fn resolve(&self, value: &Value) -> Value {
        match value {
            Value::Array(items) => {
                let items = items.iter().map(|item| self.resolve(item));
                items.filter(|item| !item.is_null()).collect()
            }
            Value::Object(fields) => self.call(fields).unwrap_or_else(|| {
                let fields = fields.iter().map(|(name, field)| (name.clone(), self.resolve(field)));
                Value::Object(fields.filter(|(_, field)| !field.is_null()).collect())
            }),
            plain => plain.clone(),
        }
    }

    /// An intrinsic function's value; `None` for what only a deployment knows.
    fn call(&self, fields: &Map<String, Value>) -> Option<Value> {
        let (name, argument) = fields.iter().next().filter(|_| fields.len() == 1)?;
        match name.as_str() {
            "Ref" if argument == "AWS::NoValue" => Some(Value::Null),
            "Ref" => self.parameters.get(argument.as_str()?).cloned(),
            "Fn::If" => {
                let taken = self.holds(&json!({ "Condition": argument[0] }));
                Some(self.resolve(&argument[if taken { 1 } else { 2 }]))
            }
            "Fn::FindInMap" => {
                let keys = [0, 1, 2].map(|index| text(&self.resolve(&argument[index])));
                let [map, row, column] = keys;
                let found = &self.template["Mappings"][&map][&row][&column];
                assert!(!found.is_null(), "{map} has no {row}, {column}");
                Some(found.clone())
            }
            "Fn::Sub" => Some(json!(self.substitute(argument))),
            _ => None,
        }
    }

    /// References to resources stay as they are written.
    fn substitute(&self, argument: &Value) -> String {
        let (pattern, variables) = match argument {
            Value::Array(both) => (text(&both[0]), self.resolve(&both[1])),
            pattern => (text(pattern), json!({})),
        };
        let mut known = self.parameters.clone();
        known.extend(variables.as_object().unwrap().clone());
        known.iter().fold(pattern, |text_so_far, (name, value)| {
            text_so_far.replace(&format!("${{{name}}}"), &text(value))
        })
    }

    fn holds(&self, condition: &Value) -> bool {
        let (name, argument) = condition.as_object().unwrap().iter().next().unwrap();
        match name.as_str() {
            "Condition" => self.holds(&self.template["Conditions"][argument.as_str().unwrap()]),
            "Fn::Not" => !self.holds(&argument[0]),
            "Fn::Or" => argument.as_array().unwrap().iter().any(|any| self.holds(any)),
            "Fn::Contains" => {
                let value = text(&self.resolve(&argument[1]));
                match self.resolve(&argument[0]) {
                    Value::Array(all) => all.iter().any(|one| text(one) == value),
                    list => text(&list).split(',').any(|one| one == value),
                }
            }
            "Fn::Equals" => text(&self.resolve(&argument[0])) == text(&self.resolve(&argument[1])),
            other => panic!("{other} is not understood here"),
        }
    }
}

/// A scalar as CloudFormation compares it.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A number that may be written as text.
pub(crate) fn number(value: &Value) -> i64 {
    text(value).parse().unwrap_or_else(|_| panic!("{value} is no whole number"))
}
