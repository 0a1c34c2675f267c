package config

import (
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/skein-project/skein/cluster/event"
)

// Stores of a gateway.
const (
	StoreMemory = event.StoreMemory
	StoreRedis  = event.StoreRedis
)

// maxAddresses is how many servers of one kind may be named.
const maxAddresses = 16

// Redis is [redis]: where outside workers are kept if gateway.store says so.
type Redis struct {
	Addresses    []string
	Sentinel     string
	PasswordFile string
	TLSCA        string
	Prefix       string
	ResultBytes  int64
}

func redisKeys() []key {
	return []key{
		valueKey("redis.addresses", func(c *Fixed) *[]string { return &c.Redis.Addresses }, parseServers, func(list []string) string { return strings.Join(list, ", ") },
			"The Redis of gateway.store = \"redis\", as \"redis.example.org:6379\" or \"unix:///run/redis.sock\":",
			"docs/scale-out.md. Every host that may hold the lease needs it, gateway or not.",
			"With redis.sentinel the Sentinels, separated by commas."),
		stringKey("redis.sentinel", func(c *Fixed) *string { return &c.Redis.Sentinel }, checkSentinel,
			"What the Sentinels call the master. Empty: redis.addresses is the Redis itself."),
		stringKey("redis.password_file", func(c *Fixed) *string { return &c.Redis.PasswordFile }, optionalPath,
			"File with its password in one line. Empty: it has none."),
		stringKey("redis.tls_ca", func(c *Fixed) *string { return &c.Redis.TLSCA }, optionalPath,
			"PEM file of who signed its certificate. Empty: no TLS."),
		stringKey("redis.prefix", func(c *Fixed) *string { return &c.Redis.Prefix }, checkPrefix,
			"What its keys begin with; the cluster's id follows, so clusters may share a Redis."),
		intKey("redis.result_bytes", func(c *Fixed) *int64 { return &c.Redis.ResultBytes }, 1<<20, 1<<40,
			"Results in it whose fate is not known, at most; of one worker a quarter."),
	}
}

func parseServers(s string) ([]string, error) {
	out := []string{}
	for one := range strings.SplitSeq(s, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		path, unix := strings.CutPrefix(one, "unix://")
		host, port, err := net.SplitHostPort(one)
		if unix && !strings.HasPrefix(path, "/") || !unix && (err != nil || host == "" || port == "") {
			return nil, fmt.Errorf("%.64q is no address: want HOST:PORT or unix:///PATH", one)
		}
		out = append(out, one)
	}
	if len(out) > maxAddresses {
		return nil, fmt.Errorf("%d addresses, at most %d are allowed", len(out), maxAddresses)
	}
	return out, nil
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`)

func checkPrefix(s string) error {
	if !plainWord.MatchString(s) {
		return fmt.Errorf("%.64q: want 1 to 32 letters, digits, dots, dashes", s)
	}
	return nil
}

func checkSentinel(s string) error {
	if s == "" {
		return nil
	}
	return checkPrefix(s)
}

// checkRedis looks at the keys of [redis] together.
func (c *Config) checkRedis() *Error {
	r := c.Redis
	switch {
	case c.Gateway.Store == StoreRedis && len(r.Addresses) == 0:
		return &Error{Key: "redis.addresses", Msg: "gateway.store is redis, and there is none", Hint: "set redis.addresses"}
	case c.Gateway.Store != StoreRedis && len(r.Addresses) > 0:
		return &Error{Key: "redis.addresses", Msg: "nothing is to be kept in this Redis", Hint: "set gateway.store to redis, on every host that may hold the lease"}
	case r.Sentinel == "" && len(r.Addresses) > 1:
		return &Error{Key: "redis.addresses", Msg: "there is more than one", Hint: "name one, or its Sentinels and in redis.sentinel what they call the master"}
	}
	return nil
}
