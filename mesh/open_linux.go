package mesh

import (
	"context"
	"net/netip"
)

func openKernel(Options) (opened, error) { return nil, ErrUnsupported }

func openTUN(Options) (opened, error) { return nil, ErrUnsupported }

func cleanup(context.Context, string) (bool, error) { return false, nil }

func pathMTU(netip.Addr) (int, error) { return 0, ErrUnsupported }

func checkOverlap(string, []netip.Prefix) error { return nil }

func readUnderlay(string) (Underlay, error) { return Underlay{}, ErrUnsupported }
