// Package kms is the local host's key service: GenerateDataKey and Decrypt with the
// symmetric keys that the template declares, which is what sealed credentials need.
//
// What a ciphertext holds is for this package alone to read. It is bound to its key and
// to its encryption context: changed in a byte, with another context or with another
// key it is refused as AWS refuses it. Key material is made when a key is first
// declared, is on disk before anything is encrypted with it, and stays there when the
// template declares the key no more, since what it encrypted may still be read.
//
// Signatures and permissions are checked in front of it (awsapi). Every other operation,
// and every member of a request that would have to mean something here, is refused by
// name. There are no grants, no key policies, no rotation and no asymmetric keys.
package kms
