use super::*;

fn read(variables: &[(&str, &str)]) -> Result<TelemetrySettings, TelemetrySettingsError> {
    let of = |name: &str| variables.iter().find(|(known, _)| *known == name);
    TelemetrySettings::from_variables(|name| of(name).map(|(_, value)| (*value).to_owned()))
}

fn url(variables: &[(&str, &str)]) -> String {
    read(variables).expect("it is on").endpoint.url.to_string()
}

#[test]
fn addresses_are_those_of_the_standard() {
    assert_eq!(url(&[]), "http://localhost:4318/v1/traces");
    let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example/base/");
    assert_eq!(url(&[all]), "https://c.example/base/v1/traces");
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t.example:9/in");
    assert_eq!(url(&[all, traces]), "http://t.example:9/in");
    assert_eq!(
        url(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]),
        "http://localhost:4318/v1/traces"
    );
    for wrong in ["collector:4318", "ftp://c.example", "http://"] {
        let wrong = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", wrong)]);
        assert!(matches!(wrong, Err(TelemetrySettingsError::Invalid(_))), "{wrong:?}");
    }
}

#[test]
fn an_address_is_shown_without_what_may_be_secret() {
    let given = [("OTEL_EXPORTER_OTLP_ENDPOINT", "https://me:pass@c.example/x?key=1")];
    let endpoint = read(&given).expect("it is on").endpoint;
    assert_eq!(endpoint.url_without_secrets(), "https://c.example/x/v1/traces");
    assert_eq!(endpoint.url.as_str(), "https://me:pass@c.example/x/v1/traces?key=1");
}

#[test]
fn headers_are_not_sent_over_plain_http_to_another_machine() {
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret-0123456789");
    for (address, is_sent) in [
        ("http://c.example", false),
        ("HTTP://c.example", false),
        ("http://localhost.c.example", false),
        ("http://0.0.0.0:4318", false),
        ("http://127.0.0.1:4318", true),
        ("http://localhost:4318", true),
        ("https://c.example", true),
    ] {
        let result = read(&[headers, ("OTEL_EXPORTER_OTLP_ENDPOINT", address)]);
        assert_eq!(result.is_ok(), is_sent, "{address}: {result:?}");
        assert!(!format!("{result:?}").contains("0123456789"), "{result:?}");
    }
    let with_password = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:pass@c.example")];
    assert!(read(&with_password).is_err());
}

#[test]
fn headers_and_attributes_are_decoded_and_the_special_variable_wins() {
    let given = [
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
        (
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "authorization=Bearer%20x%2Cy, b = 2 ",
        ),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=one,deployment.environment.name=test%20lab",
        ),
        ("OTEL_SERVICE_NAME", "two"),
    ];
    let settings = read(&given).expect("it is on");
    let headers: Vec<_> = settings
        .endpoint
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().expect("a text")))
        .collect();
    assert_eq!(headers, [("authorization", "Bearer x,y"), ("b", "2")]);
    assert_eq!(settings.endpoint.header_values(), ["Bearer x,y", "2"]);
    assert_eq!(settings.endpoint.timeout, Duration::from_millis(250));
    assert_eq!(settings.resource.service, "two");
    let more = [("deployment.environment.name".to_owned(), "test lab".to_owned())];
    assert_eq!(settings.resource.attributes, more);
    assert_eq!(read(&given[3..4]).expect("it is on").resource.service, "one");
}

#[test]
fn it_is_off_where_a_variable_says_so_and_wrong_where_it_cannot_be_done() {
    assert_eq!(
        read(&[("OTEL_SDK_DISABLED", "TRUE")]).err(),
        Some(TelemetrySettingsError::Disabled)
    );
    assert!(read(&[("OTEL_SDK_DISABLED", "false")]).is_ok());
    assert_eq!(
        read(&[("OTEL_TRACES_EXPORTER", "none")]).err(),
        Some(TelemetrySettingsError::Disabled)
    );
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a b=1"),
    ] {
        let Err(TelemetrySettingsError::Invalid(why)) = read(&[(name, value)]) else {
            panic!("{name}");
        };
        assert!(why.contains(name), "{why}");
    }
    let json = read(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]).expect("it is on");
    assert_eq!(json.endpoint.encoding, BodyEncoding::Json);
}

#[test]
fn samplers_follow_the_parent_or_a_share() {
    let sampler = |name: &str, share: &str| {
        let given = [("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", share)];
        read(&given).expect("it is on").sampler
    };
    let low = [0; 16];
    let high = [255; 16];
    let usual = read(&[]).expect("it is on").sampler;
    assert!(
        usual.should_export(&high, None)
            && usual.should_export(&high, Some(true))
            && !usual.should_export(&low, Some(false))
    );
    assert!(sampler("always_on", "").should_export(&high, Some(false)));
    assert!(!sampler("always_off", "").should_export(&low, Some(true)));
    assert!(!sampler("parentbased_always_off", "").should_export(&low, None));
    let half = sampler("traceidratio", "0.5");
    assert!(half.should_export(&low, Some(false)) && !half.should_export(&high, Some(true)));
    let half = sampler("parentbased_traceidratio", "0.5");
    assert!(
        half.should_export(&low, None) && !half.should_export(&high, None) && half.should_export(&high, Some(true))
    );
}
