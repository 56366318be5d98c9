// Package resources wires what follows the links to large values. It is apart from
// package projects, so that only the Lambda that presigns addresses links that code.
package resources

import (
	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/boot/awss3"
	"github.com/pxhost/pxhost/shared/boot/projects"
	"github.com/pxhost/pxhost/shared/resource"
	"github.com/pxhost/pxhost/shared/store/blob"
)

// New returns what follows links over the environment's bucket.
func New(env *boot.Env, p projects.Parts) resource.Resources {
	return resource.Resources{Links: p.Links(), Objects: p.Store, Policy: p.Store,
		Downloads: blob.Downloads{Client: awss3.New(env)}}
}
