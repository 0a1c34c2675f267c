package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/skein-project/skein/internal/advice"
)

// Bounds of a connection.
const (
	dialTime    = 3 * time.Second
	maxPassword = 4 << 10
	maxSkew     = 5 * time.Second
	minVersion  = "6.2" // XADD with MAXLEN and what else the scripts use
)

// Server is how to reach a Redis.
type Server struct {
	// Addresses are "host:port" or "unix:///path", of Sentinels if Sentinel names what they
	// watch.
	Addresses    []string
	Sentinel     string
	PasswordFile string // empty: none
	TLSCA        string // PEM file of who signs its certificate; empty: no TLS
	Prefix       string // of all keys
}

// String shows it without secrets.
func (v Server) String() string {
	list := strings.Join(v.Addresses, ",")
	if v.Sentinel != "" {
		return v.Sentinel + "@" + list
	}
	return list
}

func (v Server) dial() (rueidis.Client, error) { return v.dialWithin(dialTime) }

func (v Server) dialWithin(limit time.Duration) (rueidis.Client, error) {
	o := rueidis.ClientOption{
		InitAddress: v.Addresses, DisableCache: true, DisableRetry: true, ConnWriteTimeout: limit, ClientName: "skein",
		Dialer: net.Dialer{Timeout: limit, KeepAlive: time.Second},
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
			if path, ok := strings.CutPrefix(addr, "unix://"); ok {
				return d.DialContext(ctx, "unix", path)
			}
			if c != nil {
				return (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, "tcp", addr)
			}
			return d.DialContext(ctx, "tcp", addr)
		},
	}
	if v.PasswordFile != "" {
		text, err := os.ReadFile(v.PasswordFile)
		if err != nil || len(text) > maxPassword {
			return nil, file("redis.password_file", fmt.Errorf("want one line of at most %d bytes: %w", maxPassword, errors.Join(err)))
		}
		o.Password = strings.TrimSpace(string(text))
		o.Sentinel.Password = o.Password
	}
	if v.TLSCA != "" {
		text, err := os.ReadFile(v.TLSCA)
		if err != nil {
			return nil, file("redis.tls_ca", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, file("redis.tls_ca", fmt.Errorf("%s has no certificate in PEM", v.TLSCA))
		}
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
		o.Sentinel.TLSConfig = o.TLSConfig
	}
	if v.Sentinel != "" {
		o.Sentinel.MasterSet = v.Sentinel
	} else {
		o.ForceSingleClient = true
	}
	client, err := rueidis.NewClient(o)
	switch {
	case v.TLSCA != "" && errors.Is(err, context.DeadlineExceeded): // a Redis waits for the rest of what it takes for a command
		return nil, &advice.Error{Err: fmt.Errorf("nothing comes by TLS: %w", err), Next: "leave redis.tls_ca empty if it speaks none, else look for a firewall between"}
	case err != nil:
		return nil, said(err)
	}
	return client, nil
}

// file is an error about the file that a key names.
func file(key string, err error) error {
	return &advice.Error{Err: fmt.Errorf("%s: %w", key, err), Next: "name a file there that is so, and that the daemon's user may read"}
}

// said adds to what a server said what to do about it.
func said(err error) error {
	for _, x := range []struct{ part, next string }{
		{"WRONGPASS", "set redis.password_file to a file with its password"},
		{"NOAUTH", "it wants a password: set redis.password_file"},
		{"NOPERM", "let its user run scripts, and all commands on the keys of skein"},
		{"x509", "redis.tls_ca must be who signed its certificate, which must name the host of redis.addresses"},
		{"first record does not look", "it does not speak TLS: leave redis.tls_ca empty"},
		{"connection reset by peer", "it may want TLS: set redis.tls_ca"},
		{"EOF", "it may want TLS: set redis.tls_ca"},
		{"No such master", "redis.sentinel must be what its Sentinels call the master"},
		{"cluster mode", "use a Redis that is no cluster"},
		{"LOADING", "it reads its files: wait"},
		{"connection refused", unreachable},
		{"no such file", unreachable},
		{"no such host", unreachable},
		{"i/o timeout", unreachable},
		{"deadline exceeded", unreachable},
	} {
		if strings.Contains(err.Error(), x.part) {
			return &advice.Error{Err: err, Next: x.next}
		}
	}
	return err
}

const unreachable = "start it, or name in redis.addresses one that this host reaches"

// check says why a server cannot serve, or what about it is not as it should be.
func (s *Store) check(ctx context.Context, client rueidis.Client) (warned []error, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_, warned, err = look(ctx, client, s.o.Wall)
	return warned, err
}

func look(ctx context.Context, client rueidis.Client, wall func() time.Time) (info map[string]string, warned []error, err error) {
	all := client.DoMulti(ctx, client.B().Info().Build(), client.B().Time().Build())
	text, err := all[0].ToString()
	if err != nil {
		return nil, nil, said(err)
	}
	clock, err := all[1].AsStrSlice()
	if err != nil || len(clock) != 2 {
		return nil, nil, fmt.Errorf("its clock: %w", errors.Join(err))
	}
	seconds, err := strconv.ParseInt(clock[0], 10, 64)
	if err != nil {
		return nil, nil, fmt.Errorf("its clock: %w", err)
	}
	info = infoOf(text)
	warned, err = verdict(info, time.Unix(seconds, 0).Sub(wall()))
	return info, warned, err
}

// infoOf reads what INFO returns.
func infoOf(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			out[name] = value
		}
	}
	return out
}

// verdict judges a server by what INFO says of it, and how far its clock is ahead.
func verdict(info map[string]string, ahead time.Duration) (warned []error, err error) {
	switch {
	case older(info["redis_version"], minVersion):
		return nil, advice.New(fmt.Sprintf("it is Redis %.20s", info["redis_version"]), minVersion+" or later is needed")
	case info["cluster_enabled"] == "1":
		return nil, advice.New("it runs in cluster mode", "use a Redis that is no cluster")
	case info["role"] == "slave":
		return nil, advice.New("it is a replica, which takes no writes", "name its master in redis.addresses, or the Sentinels and redis.sentinel")
	case info["maxmemory_policy"] != "" && info["maxmemory_policy"] != "noeviction":
		return nil, advice.New(fmt.Sprintf("its maxmemory-policy is %.40s, which may drop what workers have", info["maxmemory_policy"]), "set noeviction")
	case ahead.Abs() > maxSkew:
		return nil, advice.New(fmt.Sprintf("its clock is %s ahead of this host's", ahead.Round(time.Second)), "set both by NTP")
	}
	if info["aof_enabled"] == "0" {
		warned = append(warned, advice.New("Redis keeps no append-only file: what outside workers brought is lost when it ends, and computed again", "set appendonly yes"))
	}
	return warned, nil
}

// older compares versions like 6.2.14; one that is none is old.
func older(have, want string) bool {
	h, w := strings.Split(have, "."), strings.Split(want, ".")
	for i := range w {
		if i >= len(h) {
			return true
		}
		a, errA := strconv.Atoi(h[i])
		b, errB := strconv.Atoi(w[i])
		if errA != nil || errB != nil || a < b {
			return true
		}
		if a > b {
			return false
		}
	}
	return false
}
