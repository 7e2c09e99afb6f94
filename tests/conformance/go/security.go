package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"hash"
	"net"
	"os"
	"time"

	"github.com/IBM/sarama"
	krb "github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/kerberos"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	xdg "github.com/xdg-go/scram"
)

// Security is how the clients of the next operations connect; all is empty for plain text.
type Security struct {
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	Mechanism   string `json:"mechanism"`
	Username    string `json:"username"`
	Password    string `json:"password"`
	Token       string `json:"token"`
	Krb5        string `json:"krb5"`
	Keytab      string `json:"keytab"`
	Realm       string `json:"realm"`
	Service     string `json:"service"`
	IsToken     bool   `json:"is_token"`
}

var security Security

func secure(a Args) (Answer, error) {
	security = a.Security
	return nil, nil
}

func (s Security) tls() *tls.Config {
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(s.CA)
	must(err)
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots}
	if s.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
		must(err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func franzOptions(a Args, options ...kgo.Opt) []kgo.Opt {
	options = append(options, kgo.SeedBrokers(a.Bootstrap))
	if security.CA != "" {
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout}, Config: security.tls()}
		options = append(options, kgo.Dialer(dialer.DialContext))
	}
	var mechanism sasl.Mechanism
	switch security.Mechanism {
	case "PLAIN":
		mechanism = plain.Auth{User: security.Username, Pass: security.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: security.Username, Pass: security.Password, IsToken: security.IsToken}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scram.Auth{User: security.Username, Pass: security.Password, IsToken: security.IsToken}.AsSha512Mechanism()
	case "OAUTHBEARER":
		mechanism = oauth.Auth{Token: security.Token}.AsMechanism()
	case "GSSAPI":
		mechanism = kerberos.Auth{ClientFn: kerberosClient(security), Service: security.Service}.AsMechanism()
	default:
		return options
	}
	return append(options, kgo.SASL(mechanism))
}

// franzGreet connects once and counts the brokers.
func franzGreet(a Args) (Answer, error) {
	client, err := kgo.NewClient(franzOptions(a)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return nil, err
	}
	return Answer{"brokers": len(client.DiscoveredBrokers())}, nil
}

// saramaGreet connects once and counts the brokers.
func saramaGreet(a Args) (Answer, error) {
	config := saramaConfig()
	config.Metadata.Retry.Max = 0
	config.Net.DialTimeout = 30 * time.Second
	client, err := sarama.NewClient([]string{a.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return Answer{"brokers": len(client.Brokers())}, nil
}

func secureSarama(config *sarama.Config) {
	if security.CA != "" {
		config.Net.TLS.Enable = true
		config.Net.TLS.Config = security.tls()
	}
	if security.Mechanism == "" {
		return
	}
	config.Net.SASL.Enable = true
	config.Net.SASL.Handshake = true
	config.Net.SASL.Mechanism = sarama.SASLMechanism(security.Mechanism)
	config.Net.SASL.User, config.Net.SASL.Password = security.Username, security.Password
	switch security.Mechanism {
	case "SCRAM-SHA-256":
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: sha256.New} }
	case "SCRAM-SHA-512":
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: sha512.New} }
	case "OAUTHBEARER":
		config.Net.SASL.TokenProvider = token(security.Token)
	case "GSSAPI":
		config.Net.SASL.GSSAPI = sarama.GSSAPIConfig{
			AuthType:           sarama.KRB5_KEYTAB_AUTH,
			KeyTabPath:         security.Keytab,
			KerberosConfigPath: security.Krb5,
			ServiceName:        security.Service,
			Username:           security.Username,
			Realm:              security.Realm,
			DisablePAFXFAST:    true,
		}
	}
}

func kerberosClient(s Security) func(context.Context) *krb.Client {
	key, err := keytab.Load(s.Keytab)
	must(err)
	settings, err := config.Load(s.Krb5)
	must(err)
	return func(context.Context) *krb.Client {
		return krb.NewWithKeytab(s.Username, s.Realm, key, settings, krb.DisablePAFXFAST(true))
	}
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

// conversation is sarama's view of one SCRAM log-in.
type conversation struct {
	hash func() hash.Hash
	*xdg.ClientConversation
}

func (c *conversation) Begin(user, password, authorization string) error {
	client, err := xdg.HashGeneratorFcn(c.hash).NewClient(user, password, authorization)
	if err != nil {
		return fmt.Errorf("scram: %w", err)
	}
	c.ClientConversation = client.NewConversation()
	return nil
}
