//! From a request to its answer.
//!
//! Invariant: it decides nothing of a run.

use std::sync::Arc;

use ensemble_wire::bodies::LimitedBodyReader;
use ensemble_wire::connections::admit_connection_of_request;
use ensemble_wire::guard::GuardRefusal;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, SET_COOKIE};
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::api::{self, RequestQuery};
use crate::app::UiServerState;
use crate::page;
use crate::reply::{self, ApiFailure, UiReply};

/// Answers a request. Converts a failure to a response.
pub(crate) async fn answer_request(app: Arc<UiServerState>, request: Request<Incoming>) -> UiReply {
    route_request(app, request)
        .await
        .unwrap_or_else(ApiFailure::into_response)
}

/// Checks the host and the client, and passes the request to the page or the API.
async fn route_request(app: Arc<UiServerState>, mut request: Request<Incoming>) -> Result<UiReply, ApiFailure> {
    app.guard.check_host(request.headers())?;
    let path = request.uri().path().to_owned();
    if *request.method() == Method::GET
        && let Some(file) = page::find_page_file(&path)
    {
        // The page itself is no secret: it is in every copy of the program.
        return Ok(file);
    }
    if path == "/api/session" && *request.method() == Method::POST {
        app.guard.check_origin(request.headers())?;
        // Whoever sends it is not known yet.
        return create_page_session(&app, &read_json_body(request, &app.session_bodies).await?);
    }
    app.guard.check_origin_and_token(request.method(), request.headers())?;
    admit_connection_of_request(&mut request)?;
    let query = RequestQuery::parse(request.uri().query().unwrap_or_default());
    match *request.method() {
        Method::GET => api::answer_api_get(&app, &path, &query).await,
        Method::POST => {
            let body = read_json_body(request, &app.bodies).await?;
            api::answer_api_post(&app, &path, &body).await
        }
        _ => Err(ApiFailure::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "only GET and POST are supported",
        )),
    }
}

/// Sets the session cookie for a page that sends the token.
fn create_page_session(app: &UiServerState, given: &Value) -> Result<UiReply, ApiFailure> {
    let token = given["token"].as_str().unwrap_or_default();
    let cookie = app.guard.cookie_for_valid_token(token)?;
    let mut reply = reply::json_reply(&json!({}));
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        reply.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(reply)
}

/// Reads the body as JSON, within the limits.
async fn read_json_body(request: Request<Incoming>, reader: &LimitedBodyReader) -> Result<Value, ApiFailure> {
    let body = reader
        .read_body(request.into_body())
        .await
        .map_err(GuardRefusal::from)?;
    if body.as_bytes().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(body.as_bytes())
        .map_err(|error| ApiFailure::bad_request(format!("the body is not JSON: {error}")))
}
