// Whether a function of ours is declared as a vendor's header declares it, argument by argument.
#ifndef COLOSSAL_EMULATION_ABICOMPARISON_H
#define COLOSSAL_EMULATION_ABICOMPARISON_H

#include <type_traits>

namespace colossal::emulation {

/// Whether a value of either type is passed in the same way: handles and pointers are pointers, enumerations
/// integers.
template <class A, class B>
constexpr bool samePassing =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
    (std::is_integral_v<A> || std::is_enum_v<A>) == (std::is_integral_v<B> || std::is_enum_v<B>);
template <class A, class B>
constexpr bool sameArgument = samePassing<A, B>;
/// What pointers point to has the same size, where both say it; handles hide it.
template <class A, class B>
constexpr bool sameArgument<A *, B *> = [] {
  if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>)
    return sameArgument<A, B>;
  else if constexpr (std::is_function_v<A> || std::is_function_v<B>)
    return std::is_same_v<A, B>;
  else if constexpr (std::is_integral_v<A> || std::is_enum_v<A> || std::is_floating_point_v<A>)
    return samePassing<std::remove_const_t<A>, std::remove_const_t<B>> &&
           std::is_const_v<A> == std::is_const_v<B>;
  else
    return std::is_void_v<A> == std::is_void_v<B> && std::is_const_v<A> == std::is_const_v<B>;
}();

template <>
inline constexpr bool sameArgument<void, void> = true;

template <class A, class B>
constexpr bool sameFunction = false;
template <class RA, class... A, class RB, class... B>
constexpr bool sameFunction<RA(A...), RB(B...)> = [] {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return sameArgument<RA, RB> && (sameArgument<A, B> && ...);
}();

} // namespace colossal::emulation

#endif
