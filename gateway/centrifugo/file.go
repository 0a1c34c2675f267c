package centrifugo

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/channel"
)

// Settings is what a Centrifugo is to know of a cluster and its gateways.
type Settings struct {
	Cluster string // its id
	Gateway string // URL, as https://gw.example.org
	// Proxy is where it asks gateways: http://HOST:PORT of a gateway.internal_listen, or of a
	// balancer before several.
	Proxy string
	// API and Clients are centrifugo.api_url and centrifugo.ws_url.
	API, Clients string
	Key, Secret  string
	Origins      []string // of web pages besides the gateway's own
	Redis        Redis
}

// Redis is where Centrifugo's nodes find each other, and keep what was published of late.
type Redis struct {
	Addresses []string // as redis.addresses
	Sentinel  string
	Password  string
	TLSCA     string // file
	Prefix    string // of skein's keys; those of Centrifugo begin otherwise
}

// file is a configuration of Centrifugo v5, which is flat: what v6 nests is ignored by it.
type file struct {
	Engine           string   `json:"engine"`
	RedisAddress     string   `json:"redis_address,omitempty"`
	RedisSentinels   []string `json:"redis_sentinel_address,omitempty"`
	RedisMaster      string   `json:"redis_sentinel_master_name,omitempty"`
	RedisPassword    string   `json:"redis_password,omitempty"`
	SentinelPassword string   `json:"redis_sentinel_password,omitempty"`
	RedisTLS         bool     `json:"redis_tls,omitempty"`
	RedisTLSRoot     string   `json:"redis_tls_root_ca,omitempty"`
	SentinelTLS      bool     `json:"redis_sentinel_tls,omitempty"`
	SentinelTLSRoot  string   `json:"redis_sentinel_tls_root_ca,omitempty"`
	RedisPrefix      string   `json:"redis_prefix"`
	Address          string   `json:"address"`
	Port             string   `json:"port"`
	InternalAddress  string   `json:"internal_address"`
	InternalPort     string   `json:"internal_port"`
	WebSocketPath    string   `json:"websocket_handler_prefix"`
	APIPath          string   `json:"api_handler_prefix"`
	Health           bool     `json:"health"`
	Prometheus       bool     `json:"prometheus"`
	NoUsageStats     bool     `json:"usage_stats_disable"`
	TokenKeys        string   `json:"token_jwks_public_endpoint"`
	TokenAudience    string   `json:"token_audience"`
	APIKey           string   `json:"api_key"`
	AllowedOrigins   []string `json:"allowed_origins"`
	MessageSize      int      `json:"websocket_message_size_limit"`
	QueueSize        int      `json:"client_queue_max_size"`
	ChannelLimit     int      `json:"client_channel_limit"`
	ConnectionsOfOne int      `json:"client_user_connection_limit"`
	// Of channels of no namespace: there is one.
	HistorySize     int    `json:"history_size"`
	HistoryTTL      string `json:"history_ttl"`
	HistoryMetaTTL  string `json:"history_meta_ttl"`
	ForceRecovery   bool   `json:"force_recovery"`
	SubscribeProxy  string `json:"subscribe_proxy_name"`
	SubRefreshProxy string `json:"sub_refresh_proxy_name"`

	Namespaces        []space `json:"namespaces"`
	GranularProxyMode bool    `json:"granular_proxy_mode"`
	ConnectProxy      string  `json:"connect_proxy_name"`
	RefreshProxy      string  `json:"refresh_proxy_name"`
	RPCProxy          string  `json:"rpc_proxy_name"`
	Proxies           []proxy `json:"proxies"`
}

// space is channels of one kind.
type space struct {
	Name            string `json:"name"`
	HistorySize     int    `json:"history_size"`
	HistoryTTL      string `json:"history_ttl"`
	HistoryMetaTTL  string `json:"history_meta_ttl"`
	ForceRecovery   bool   `json:"force_recovery"`
	SubscribeProxy  string `json:"subscribe_proxy_name"`
	SubRefreshProxy string `json:"sub_refresh_proxy_name,omitempty"`
}

// Proxies that are asked about who listens, and how long it is known where in a channel one was.
const (
	subscribeProxy  = "skein-subscribe"
	subRefreshProxy = "skein-sub_refresh"
	keptMeta        = "1h"
)

// seconds is how a file says a time.
func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) + "s" }

// spaceOf is channels of a kind.
func spaceOf(k channel.Kind) space {
	s := space{
		Name: strings.TrimSuffix(k.Prefix, ":"), HistorySize: k.Kept.Messages, HistoryTTL: seconds(k.Kept.For), HistoryMetaTTL: keptMeta,
		ForceRecovery: k.Kept.Recover, SubscribeProxy: subscribeProxy,
	}
	if k != channel.Work { // who may listen to them may not for ever
		s.SubRefreshProxy = subRefreshProxy
	}
	return s
}

type proxy struct {
	Name     string            `json:"name"`
	Endpoint string            `json:"endpoint"`
	Timeout  string            `json:"timeout"`
	Headers  map[string]string `json:"static_http_headers"`
}

// File is the configuration that a Centrifugo v5 is to have. It has secrets in it.
func File(s Settings) ([]byte, error) {
	inner, err := hostPort("centrifugo.api_url", s.API)
	if err != nil {
		return nil, err
	}
	outer, err := hostPort("centrifugo.ws_url", s.Clients)
	if err != nil {
		return nil, err
	}
	if s.Proxy == "" || s.Gateway == "" || s.Key == "" || s.Secret == "" || len(s.Redis.Addresses) == 0 {
		return nil, errors.New("something of the gateway, its keys or its Redis is not known")
	}
	f := file{
		Engine: "redis", RedisPassword: s.Redis.Password, RedisPrefix: s.Redis.Prefix + "-centrifugo." + s.Cluster,
		Address: outer.host, Port: outer.port, InternalAddress: inner.host, InternalPort: inner.port,
		WebSocketPath: outer.path, APIPath: inner.path, Health: true, Prometheus: true, NoUsageStats: true,
		TokenKeys: s.Proxy + keysPath, TokenAudience: auth.Audience(s.Cluster),
		APIKey: s.Key, AllowedOrigins: append([]string{s.Gateway}, s.Origins...),
		MessageSize: channel.MaxMessage, QueueSize: channel.MaxQueue, ChannelLimit: channel.MaxChannels, ConnectionsOfOne: channel.MaxConnections,
		Namespaces:  []space{spaceOf(channel.Work), spaceOf(channel.Job), spaceOf(channel.User)},
		HistorySize: channel.Cluster.Kept.Messages, HistoryTTL: seconds(channel.Cluster.Kept.For), HistoryMetaTTL: keptMeta, ForceRecovery: channel.Cluster.Kept.Recover,
		SubscribeProxy: subscribeProxy, SubRefreshProxy: subRefreshProxy,
		GranularProxyMode: true, ConnectProxy: "skein-connect", RefreshProxy: "skein-refresh", RPCProxy: "skein-rpc",
	}
	if s.Redis.Sentinel != "" {
		f.RedisSentinels, f.RedisMaster, f.SentinelPassword = []string{strings.Join(s.Redis.Addresses, ",")}, s.Redis.Sentinel, s.Redis.Password
		f.SentinelTLS, f.SentinelTLSRoot = s.Redis.TLSCA != "", s.Redis.TLSCA
	} else {
		f.RedisAddress = s.Redis.Addresses[0]
	}
	f.RedisTLS, f.RedisTLSRoot = s.Redis.TLSCA != "", s.Redis.TLSCA
	for _, name := range []string{"connect", "refresh", "subscribe", "sub_refresh", "rpc"} {
		f.Proxies = append(f.Proxies, proxy{
			Name: "skein-" + name, Endpoint: s.Proxy + "/proxy/" + name, Timeout: ProxyTime.String(), Headers: map[string]string{SecretHeader: s.Secret},
		})
	}
	text, err := json.MarshalIndent(f, "", "  ")
	return append(text, '\n'), err
}

// place is where something listens.
type place struct{ host, port, path string }

// hostPort is the place that an URL names. Where that is a name, or encrypted, a proxy is
// thought to stand before it: Centrifugo listens on all addresses then, or at the port that it
// has by itself.
func hostPort(key, text string) (place, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return place{}, fmt.Errorf("%s: %.100q is no address", key, text)
	}
	at := place{host: u.Hostname(), port: u.Port(), path: strings.TrimSuffix(u.Path, "/")}
	if net.ParseIP(at.host) == nil {
		at.host = ""
	}
	plain := u.Scheme == "http" || u.Scheme == "ws"
	switch {
	case !plain && key == "centrifugo.ws_url":
		at.host, at.port = "", "8000"
	case !plain:
		at.host, at.port = "", "9000"
	case at.port == "":
		at.port = "80"
	}
	return at, nil
}
