package device

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/mesh/topo"
)

// uapiText is op in the configuration protocol of WireGuard; ok is false for
// operations that are not the device's.
func uapiText(op topo.Op) (text string, ok bool) {
	line := func(k topo.Key, rest string) (string, bool) {
		return "public_key=" + hex.EncodeToString(k[:]) + "\n" + rest, true
	}
	switch o := op.(type) {
	case topo.SetPort:
		return fmt.Sprintf("listen_port=%d\n", o.Port), true
	case topo.AddPeer:
		return line(o.Key, "persistent_keepalive_interval=0\n")
	case topo.RemovePeer:
		return line(o.Key, "remove=true\n")
	case topo.Allow:
		return line(o.Key, "update_only=true\nallowed_ip="+o.Prefix.String()+"\n")
	case topo.Disallow:
		return line(o.Key, "update_only=true\nallowed_ip=-"+o.Prefix.String()+"\n")
	case topo.Replace:
		// First the new peer gets the prefixes, which takes them from the old
		// one, so that at no time they are nobody's.
		text, _ := line(o.New, "")
		for _, p := range o.Allowed {
			text += "allowed_ip=" + p.String() + "\n"
		}
		gone, _ := line(o.Old, "remove=true\n")
		return text + gone, true
	case topo.SetEndpoint:
		return line(o.Key, "update_only=true\nendpoint="+o.Endpoint.String()+"\n")
	case topo.SetKeepalive:
		return line(o.Key, fmt.Sprintf("update_only=true\npersistent_keepalive_interval=%d\n", int(o.Interval/time.Second)))
	}
	return "", false
}

// ParseUAPI reads what a device reports. Unknown lines are ignored.
func ParseUAPI(text string) (Reading, error) {
	var (
		r Reading
		p *topo.PeerReading
	)
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			continue
		}
		switch {
		case key == "public_key":
			b, err := hex.DecodeString(value)
			if err != nil {
				return r, fmt.Errorf("read device: public key: %w", err)
			}
			k, err := topo.KeyFrom(b)
			if err != nil {
				return r, fmt.Errorf("read device: %w", err)
			}
			r.Peers = append(r.Peers, topo.PeerReading{ObservedPeer: topo.ObservedPeer{Key: k}})
			p = &r.Peers[len(r.Peers)-1]
		case key == "listen_port":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return r, fmt.Errorf("read device: port: %w", err)
			}
			r.Port = uint16(n)
		case p != nil:
			if err := setPeer(p, key, value); err != nil {
				return r, fmt.Errorf("read device: peer %s: %s: %w", p.Key, key, err)
			}
		}
	}
	return r, nil
}

func setPeer(p *topo.PeerReading, key, value string) (err error) {
	var n int64
	switch key {
	case "endpoint":
		p.Endpoint, err = netip.ParseAddrPort(value)
	case "allowed_ip":
		var a netip.Prefix
		a, err = netip.ParsePrefix(value)
		p.Allowed = append(p.Allowed, a)
	case "rx_bytes":
		p.Rx, err = strconv.ParseUint(value, 10, 64)
	case "tx_bytes":
		p.Tx, err = strconv.ParseUint(value, 10, 64)
	case "persistent_keepalive_interval":
		n, err = strconv.ParseInt(value, 10, 32)
		p.Keepalive = time.Duration(n) * time.Second
	case "last_handshake_time_sec":
		n, err = strconv.ParseInt(value, 10, 33)
		p.Handshake += n * int64(time.Second)
	case "last_handshake_time_nsec":
		n, err = strconv.ParseInt(value, 10, 32)
		p.Handshake += n
	}
	return err
}
