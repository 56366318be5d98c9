package main

import (
	"errors"
	"fmt"

	"github.com/pxhost/pxhost/infra/local"
	"github.com/pxhost/pxhost/infra/local/statedir"
	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/components"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/component/planned"
)

// operator returns what an operator works with, and the issuer whose principals
// are meant. With PX_TABLE_HEADS in the environment, the environment names the
// installation, as it does for a Lambda: tables, credentials, PX_ISSUER. Without
// it, it is the local host of the state folder. An operator works on tables and not
// through a URL: one that names another host is refused, since what was meant for
// there would be done here.
func (e *environment) operator() (projects.Parts, string, error) {
	if _, ok := e.lookup("PX_TABLE_HEADS"); ok {
		env := boot.NewEnv(e.lookup)
		parts, issuer := projects.New(env), env.Need("PX_ISSUER")
		return parts, issuer, env.Err()
	}
	host, err := e.dir().ReadHost()
	if errors.Is(err, statedir.ErrNotStarted) {
		return projects.Parts{}, "", fmt.Errorf("%w: start px local first", err)
	}
	if err != nil {
		return projects.Parts{}, "", err
	}
	if url, err := e.baseURL(); err != nil {
		return projects.Parts{}, "", err
	} else if url != host.URL {
		return projects.Parts{}, "", fmt.Errorf("the host of the state folder %s is at %s, not at %s: name its folder with --state; an installation elsewhere is named by PX_TABLE_HEADS, PX_ISSUER and the other variables of its functions", e.state, host.URL, url)
	}
	key, err := e.dir().Operator()
	if err != nil {
		return projects.Parts{}, "", err
	}
	parts, err := localParts(host, key)
	return parts, host.URL, err
}

// planned is the planned catalog of Components as the installation has it: off, but where
// it was switched on.
func (e *environment) planned() (planned.Catalog, error) {
	lookup := e.lookup
	if _, ok := e.lookup("PX_TABLE_HEADS"); !ok {
		host, err := e.dir().ReadHost()
		if err != nil {
			return planned.Catalog{}, err
		}
		lookup = func(name string) (string, bool) { value, ok := host.Environment[name]; return value, ok }
	}
	env := boot.NewEnv(lookup)
	catalog := components.Planned(env)
	return catalog, env.Err()
}

// localParts are the services of a local host, used with the operator's key.
func localParts(host statedir.Host, key statedir.Operator) (projects.Parts, error) {
	env := boot.NewEnv(func(name string) (string, bool) {
		switch name {
		case "AWS_REGION":
			return local.Region, true
		case "AWS_ENDPOINT_URL":
			return host.AWSEndpoint, true
		case "AWS_ACCESS_KEY_ID":
			return key.AccessKeyID, true
		case "AWS_SECRET_ACCESS_KEY":
			return key.SecretAccessKey, true
		}
		value, ok := host.Environment[name]
		return value, ok
	})
	return projects.New(env), env.Err()
}
