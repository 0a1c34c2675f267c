package config

import (
	"net/netip"
	"testing"
)

func TestPublicNetwork(t *testing.T) {
	for text, want := range map[string]bool{
		"10.86.0.0/16": false, "172.31.0.0/16": false, "192.168.7.0/24": false, "100.64.0.0/10": false,
		"172.0.0.0/8": true, "8.8.8.0/24": true, "172.32.0.0/16": true,
	} {
		if got := PublicNetwork(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
